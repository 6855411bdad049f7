//! Every request is one that Daytona's documents know, with what they say about it.

use std::time::Duration;

use holm_daytona_client::wire::StringMap;
use holm_daytona_client::wire::files::ReplaceRequest;
use holm_daytona_client::wire::git::{
    GitCloneRequest, GitCommitRequest, GitPullRequest, GitPushRequest,
};
use holm_daytona_client::wire::preview::SignedPortPreviewUrl;
use holm_daytona_client::wire::process::{CodeRunRequest, ExecuteRequest};
use holm_daytona_client::wire::routes::{self, Method, Origin, Plane};
use holm_daytona_client::wire::sandbox::{
    CreateSandbox, ResizeSandbox, Sandbox, UpdateNetworkSettings,
};
use holm_daytona_client::wire::ssh::SshAccess;
use holm_daytona_client::{
    Client, Credentials, InputEcho, ListQuery, NewTerminal, Permissions, Recurse, Secret,
    StopManner, Toolbox,
};
use serde_json::json;

use crate::scripted::{KEY, Reply, Scripted, Seen};

const LONG: Duration = Duration::from_secs(60);

async fn use_control_plane(client: &Client) {
    drop(client.create(CreateSandbox::default()).await);
    drop(client.get("a").await);
    drop(client.list(ListQuery::default()).all(1).await);
    drop(client.delete("a").await);
    drop(client.start("a").await);
    drop(client.stop("a", StopManner::Graceful).await);
    drop(client.archive("a").await);
    drop(client.recover("a").await);
    drop(client.resize("a", &ResizeSandbox::default()).await);
    drop(client.set_labels("a", StringMap::new()).await);
    drop(client.set_auto_stop("a", 5).await);
    drop(client.set_auto_archive("a", 6).await);
    drop(client.set_auto_delete("a", None).await);
    drop(
        client
            .set_network("a", &UpdateNetworkSettings::default())
            .await,
    );
    drop(client.refresh_activity("a").await);
    drop(client.preview_link("a", 3000).await);
    drop(client.signed_preview_link("a", 3000, LONG).await);
    let link = SignedPortPreviewUrl {
        port: 3000,
        token: "token".into(),
        ..SignedPortPreviewUrl::default()
    };
    drop(client.expire_signed_preview_link("a", &link).await);
    drop(client.create_ssh_access("a", LONG).await);
    let access = SshAccess {
        token: "token".into(),
        ..SshAccess::default()
    };
    drop(client.revoke_ssh_access("a", &access).await);
    drop(
        client
            .toolbox(&Sandbox {
                id: "a".to_owned(),
                ..Sandbox::default()
            })
            .await,
    );
    drop(client.snapshots(1, 10).await);
    drop(client.snapshot("a").await);
}

async fn use_toolbox(toolbox: &Toolbox) {
    drop(toolbox.home_dir().await);
    drop(toolbox.work_dir().await);
    drop(toolbox.metrics().await);
    drop(toolbox.ports().await);
    drop(toolbox.process().execute(&ExecuteRequest::default()).await);
    drop(toolbox.process().run_code(&CodeRunRequest::default()).await);
    let sessions = toolbox.sessions();
    drop(sessions.create("s").await);
    drop(sessions.list().await);
    drop(sessions.get("s").await);
    drop(sessions.execute("s", "true", LONG).await);
    drop(sessions.spawn("s", "true", InputEcho::Suppressed).await);
    drop(sessions.command("s", "c").await);
    drop(sessions.logs("s", "c").await);
    drop(sessions.input("s", "c", "x").await);
    drop(sessions.follow("s", "c").await);
    drop(sessions.delete("s").await);
    let terminals = toolbox.terminals();
    let new = NewTerminal {
        id: "t".to_owned(),
        columns: 1,
        rows: 1,
        cwd: None,
        envs: StringMap::new(),
    };
    drop(terminals.create(&new).await);
    drop(terminals.connect("t").await);
    drop(terminals.list().await);
    drop(terminals.get("t").await);
    drop(terminals.resize("t", 2, 2).await);
    drop(terminals.kill("t").await);
    let files = toolbox.files();
    drop(files.write("f", "x").await);
    drop(files.download("f").await);
    drop(files.list("f").await);
    drop(files.info("f").await);
    drop(files.create_folder("f", "755").await);
    drop(files.rename("f", "g").await);
    drop(files.delete("f", Recurse::Yes).await);
    drop(files.set_permissions("f", &Permissions::default()).await);
    drop(files.find_in_files("f", "x").await);
    drop(files.search("f", "*").await);
    drop(files.replace(&ReplaceRequest::default()).await);
    let git = toolbox.git();
    drop(git.clone(GitCloneRequest::default(), None).await);
    drop(git.status("r").await);
    drop(git.branches("r").await);
    drop(git.create_branch("r", "b").await);
    drop(git.delete_branch("r", "b").await);
    drop(git.checkout("r", "b").await);
    drop(git.add("r", Vec::new()).await);
    drop(git.commit(&GitCommitRequest::default()).await);
    drop(git.push(GitPushRequest::default(), None).await);
    drop(git.pull(GitPullRequest::default(), None).await);
    drop(git.history("r").await);
}

fn operation(seen: &Seen) -> (&'static routes::Operation, String) {
    let path = seen.path.split('?').next().unwrap_or_default();
    let (plane, path) = match path.strip_prefix("/api") {
        Some(path) => (Plane::ControlPlane, path),
        None => (Plane::Toolbox, path.strip_prefix("/toolbox/box").unwrap()),
    };
    let method = Method::parse(&seen.method).unwrap();
    let found = routes::find(plane, method, path);
    (
        found.unwrap_or_else(|| panic!("{}", seen.line())),
        seen.line(),
    )
}

#[tokio::test]
async fn every_request_is_in_daytonas_documents() {
    let server = Scripted::start(|_| Reply::Json(400, json!({}))).await;
    use_control_plane(&server.client()).await;
    use_toolbox(&server.toolbox().await).await;
    let seen = server.seen();
    // As many as calls above: none is tried again, none is left out.
    assert_eq!(seen.len(), 67, "{:#?}", server.lines());
    for request in &seen {
        let (operation, line) = operation(request);
        let is_written = operation.origin == Origin::Specification;
        let is_known_exception = operation.id == "CreateConnectPtySession";
        assert!(is_written || is_known_exception, "{line}");
        assert_eq!(
            request.header("authorization"),
            Some(format!("Bearer {KEY}").as_str())
        );
        assert_eq!(request.header("x-daytona-sdk-version"), Some("0.205.1"));
        assert_eq!(request.header("x-daytona-source"), Some("sdk-rust-holm"));
        assert_eq!(request.header("x-daytona-organization-id"), None);
    }
}

#[tokio::test]
async fn nothing_is_sent_that_only_holm_understands() {
    let server = Scripted::start(|_| Reply::Json(200, json!({ "cmdId": "c" }))).await;
    let toolbox = server.toolbox().await;
    let sessions = toolbox.sessions();
    sessions.execute("s", "make", LONG).await.unwrap();
    sessions.spawn("s", "make", InputEcho::Shown).await.unwrap();
    let bodies: Vec<_> = server.seen().iter().map(Seen::json).collect();
    assert_eq!(
        bodies,
        [
            json!({ "command": "make", "runAsync": false }),
            json!({ "command": "make", "runAsync": true }),
        ]
    );
}

#[tokio::test]
async fn credentials_travel_in_the_body_and_show_nowhere_else() {
    let refusal =
        json!({ "message": "denied", "code": "GIT_AUTH_FAILED", "source": "DAYTONA_DAEMON" });
    let server = Scripted::start(move |_| Reply::Json(401, refusal.clone())).await;
    let toolbox = server.toolbox().await;
    let credentials = Credentials::new("git", Secret::new("ghp_hush_hush"));
    assert!(!format!("{credentials:?}").contains("hush"));
    let request = GitCloneRequest {
        url: "https://host/a.git".to_owned(),
        path: "a".to_owned(),
        ..GitCloneRequest::default()
    };
    let error = toolbox.git().clone(request, Some(&credentials)).await;
    let error = error.unwrap_err();
    assert!(error.is_unauthorized());
    assert!(!format!("{error:?} {error}").contains("hush"));
    assert_eq!(
        server.seen()[0].json(),
        json!({ "url": "https://host/a.git", "path": "a", "username": "git", "password": "ghp_hush_hush" })
    );
}

#[tokio::test]
async fn a_jwt_names_its_organisation() {
    let server = Scripted::start(|_| Reply::Json(200, json!({ "id": "a" }))).await;
    let mut settings = server.settings();
    settings.organization_id = Some("org-1".to_owned());
    Client::new(settings).unwrap().get("a").await.unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].header("x-daytona-organization-id"), Some("org-1"));
}

#[tokio::test]
async fn the_toolbox_is_where_the_server_says() {
    let server = Scripted::start(|request| match request.path.as_str() {
        "/api/sandbox/a/toolbox-proxy-url" => {
            let host = request.header("host").unwrap();
            Reply::Json(200, json!({ "url": format!("http://{host}/elsewhere/") }))
        }
        _ => Reply::Json(200, json!({ "dir": "/home" })),
    })
    .await;
    let sandbox = Sandbox {
        id: "a".to_owned(),
        ..Sandbox::default()
    };
    let toolbox = server.client().toolbox(&sandbox).await.unwrap();
    assert_eq!(toolbox.home_dir().await.unwrap(), "/home");
    assert_eq!(server.lines()[1], "GET /elsewhere/a/user-home-dir");
}

#[tokio::test]
async fn the_key_is_not_sent_to_a_toolbox_without_encryption() {
    let settings = holm_daytona_client::Settings::new("https://localhost:1/api", KEY);
    let client = Client::new(settings).unwrap();
    let sandbox = Sandbox {
        id: "a".to_owned(),
        toolbox_proxy_url: "http://localhost:1/toolbox".to_owned(),
        ..Sandbox::default()
    };
    let error = client.toolbox(&sandbox).await.unwrap_err();
    assert!(error.to_string().contains("not encrypted"), "{error}");
}
