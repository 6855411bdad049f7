//! Lists, page by page.

use holm_daytona_client::ListQuery;
use holm_daytona_client::wire::StringMap;
use holm_daytona_client::wire::sandbox::{SandboxSortField, SandboxState, SortDirection};
use serde_json::{Value, json};

use crate::scripted::{Reply, Scripted};

fn page(ids: &[&str], next: Option<&str>) -> Reply {
    let items: Vec<Value> = ids.iter().map(|id| json!({ "id": id })).collect();
    Reply::Json(200, json!({ "items": items, "nextCursor": next }))
}

#[tokio::test]
async fn the_cursor_leads_through_all_pages() {
    // Also through one that is empty.
    let pages = vec![
        page(&["a", "b"], Some("x y")),
        page(&[], Some("z")),
        page(&["c"], None),
    ];
    let server = Scripted::replying(pages).await;
    let client = server.client();
    let listed = client.list(ListQuery::default()).all(10).await.unwrap();
    let ids: Vec<&str> = listed.iter().map(|sandbox| sandbox.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    assert_eq!(
        server.lines(),
        [
            "GET /api/sandbox",
            "GET /api/sandbox?cursor=x+y",
            "GET /api/sandbox?cursor=z"
        ]
    );
}

#[tokio::test]
async fn a_query_is_sent_as_the_sdks_send_it() {
    let server = Scripted::replying(vec![page(&[], None)]).await;
    let query = ListQuery {
        labels: StringMap::from([("holm.run".to_owned(), "7".to_owned())]),
        states: vec![SandboxState::Started, SandboxState::Stopped],
        name: Some("web".to_owned()),
        sort: Some(SandboxSortField::CreatedAt),
        order: Some(SortDirection::Asc),
        page_size: Some(5),
    };
    assert_eq!(server.client().list(query).all(10).await.unwrap(), []);
    assert_eq!(
        server.lines(),
        [
            "GET /api/sandbox?limit=5&name=web&labels=%7B%22holm.run%22%3A%227%22%7D\
             &states=started&states=stopped&sort=createdAt&order=asc"
        ]
    );
}

#[tokio::test]
async fn a_list_is_not_cut_in_silence() {
    let server = Scripted::start(|_| page(&["a", "b"], Some("again"))).await;
    let client = server.client();
    let error = client.list(ListQuery::default()).all(5).await.unwrap_err();
    assert!(error.to_string().contains("more than 5"), "{error}");
}
