//! What a preview says when it cannot show a program: a page for browsers, JSON for programs.

use axum::Json;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use serde_json::json;

pub(super) fn answer(request: &Request, status: StatusCode, message: &str) -> Response {
    render(request.headers(), status, message)
}

pub(super) fn of_parts(parts: &Parts, status: StatusCode, message: &str) -> Response {
    render(&parts.headers, status, message)
}

/// For what is no request of a browser.
pub(super) fn plain(status: StatusCode, message: &str) -> Response {
    render(&HeaderMap::new(), status, message)
}

fn render(headers: &HeaderMap, status: StatusCode, message: &str) -> Response {
    let wants_html = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"));
    let title = status.canonical_reason().unwrap_or("Error");
    let mut response = if wants_html {
        let text = escape(message);
        let page = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
             <style>body{{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:15vh auto;padding:0 1em}}</style>\n\
             <h1>{title}</h1>\n<p>{text}</p>\n</html>\n"
        );
        (status, Html(page)).into_response()
    } else {
        let body = json!({ "statusCode": status.as_u16(), "error": title, "message": message });
        (status, Json(body)).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
