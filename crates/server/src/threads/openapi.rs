//! What is said of the routes of threads: OpenAPI, made from their declarations.

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    ContentBuilder, InfoBuilder, Ref, RefOr, Response, ResponseBuilder, ServerBuilder,
};

/// What any of the routes may answer.
const EVERYWHERE: [(&str, &str); 2] = [
    ("401", "no key or token, or one that is not good"),
    (
        "429",
        "the server, or the thread of the token, has as many requests as it may have at once: try again",
    ),
];

/// The document, as `docs/reference/threads-openapi.json` has it.
pub fn document() -> String {
    let mut document = super::declared().into_openapi();
    document.info = InfoBuilder::new()
        .title("Holm: threads")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Threads are durable streams of entries. To follow one, read its stream by the Durable Streams protocol at \
             `/v1/stream/holm-thread-{id}`; these routes make, find and describe threads, and give tokens for them.",
        ))
        .build();
    for path in document.paths.paths.values_mut() {
        let operations = [
            &mut path.get,
            &mut path.put,
            &mut path.post,
            &mut path.delete,
            &mut path.patch,
        ];
        for operation in operations.into_iter().flatten() {
            for (status, description) in EVERYWHERE {
                let responses = &mut operation.responses.responses;
                let response = || RefOr::T(failure(description));
                responses.entry(status.to_owned()).or_insert_with(response);
            }
        }
    }
    document.servers = Some(vec![ServerBuilder::new().url("/api").build()]);
    let components = document.components.get_or_insert_default();
    let bearer = |description: &str| {
        SecurityScheme::Http(
            HttpBuilder::new()
                .scheme(HttpAuthScheme::Bearer)
                .description(Some(description))
                .build(),
        )
    };
    components.add_security_scheme("key", bearer("An API key: reaches its organisation."));
    let token = "A token of one thread: the verbs that it needs stand beside.";
    components.add_security_scheme("token", bearer(token));
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

fn failure(description: &str) -> Response {
    let schema = Ref::from_schema_name("Failure");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new()
        .description(description)
        .content("application/json", content)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described() {
        let document: serde_json::Value = serde_json::from_str(&document()).unwrap();
        let paths = document["paths"].as_object().unwrap();
        let mut operations: Vec<String> = paths
            .iter()
            .flat_map(|(path, item)| {
                let methods = item.as_object().unwrap().keys();
                methods.map(move |method| format!("{method} {path}"))
            })
            .collect();
        operations.sort();
        assert_eq!(
            operations,
            [
                "delete /threads/{id}",
                "get /threads",
                "get /threads/{id}",
                "get /threads/{id}/blobs/{sha256}",
                "get /threads/{id}/children",
                "get /threads/{id}/entries",
                "patch /threads/{id}",
                "post /thread-token-keys/rotate",
                "post /threads",
                "post /threads/{id}/entries",
                "post /threads/{id}/heartbeat",
                "post /threads/{id}/read-tickets",
                "post /threads/{id}/rebuild",
                "post /threads/{id}/tokens",
                "post /threads/{id}/tokens/renew",
                "put /threads/{id}/blobs/{sha256}",
            ]
        );
        for (path, item) in paths {
            for (method, operation) in item.as_object().unwrap() {
                let responses = &operation["responses"];
                for status in ["401", "429"] {
                    assert!(responses[status].is_object(), "{method} {path}: {status}");
                }
            }
        }
        let schema = &document["components"]["schemas"]["Thread"]["properties"];
        assert!(schema["lastSeenAt"].is_object(), "{schema}");
    }
}
