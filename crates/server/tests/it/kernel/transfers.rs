//! Content that goes in and out.

use holm_daytona_wire::Hidden;
use holm_daytona_wire::signature::{Expires, FileMethod, sign};
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use super::inside::Tools;
use crate::support::Answer;

fn file(name: &str, content: &str) -> Part {
    Part::bytes(content.as_bytes().to_vec()).file_name(name.to_owned())
}

pub(super) fn bulk_upload(tools: &Tools, form: Form) -> Answer {
    tools.send(
        tools
            .request(Method::POST, "/files/bulk-upload")
            .multipart(form),
    )
}

#[test]
fn many_files_go_in_as_both_sdks_send_them() {
    let tools = Tools::new();
    let python = Form::new()
        .text("files[0].path", "a/one.txt")
        .text("files[1].path", "/tmp/two.txt")
        .part("files[0].file", file("a/one.txt", "one"))
        .part("files[1].file", file("/tmp/two.txt", "two!"));
    let answer = bulk_upload(&tools, python).ok();
    let files =
        json!([{ "path": "a/one.txt", "bytes": 3 }, { "path": "/tmp/two.txt", "bytes": 4 }]);
    assert_eq!(answer, json!({ "files": files }));
    let typescript = Form::new()
        .text("files[0].path", "a/one.txt")
        .part("files[0].file", file("other-name", "ONE"))
        .text("files[1].path", "a/ü \"x\".txt")
        .part("files[1].file", file("", ""));
    bulk_upload(&tools, typescript).ok();
    assert_eq!(tools.read("a/one.txt"), b"ONE");
    assert_eq!(tools.read("/tmp/two.txt"), b"two!");
    assert_eq!(tools.read("a/%C3%BC%20%22x%22.txt"), b"");
}

#[test]
fn what_fails_for_one_file_is_told_and_the_others_are_written() {
    let tools = Tools::new();
    let form = Form::new()
        .text("files[0].path", "/etc/denied")
        .part("files[0].file", file("x", "x"))
        .part("files[1].file", file("x", "too early"))
        .text("files[1].path", "too-early")
        .text("files[2].path", "fine")
        .text("files[2].path", "twice")
        .part("files[2].file", file("x", "fine"))
        .text("files[3].path", "a\0b")
        .part("files[3].file", file("x", "x"))
        .text("files[4].path", "../../../../../../tmp/fine-too")
        .part("files[4].file", file("x", "y"));
    let answer = bulk_upload(&tools, form);
    assert_eq!(answer.status, 400);
    let files = answer.body["files"].as_array().unwrap();
    assert_eq!(files.len(), 2, "{:?}", answer.body);
    let errors = answer.body["errors"].to_string();
    for told in [
        "/etc/denied",
        "files[1].path",
        "too-early",
        "files[2].path",
        "NUL",
    ] {
        assert!(errors.contains(told), "{told}: {errors}");
    }
    assert_eq!(tools.read("fine"), b"fine");
    // It leads to the box's own top, as a shell in it would see it.
    assert_eq!(tools.read("/tmp/fine-too"), b"y");
    tools.get("/files/info?path=twice").refused(404);
}

#[test]
fn single_files_go_in_raw_and_as_a_form() {
    let tools = Tools::new();
    let answer = tools.upload("deep/raw.bin", b"\0\xff").ok();
    assert_eq!(
        answer,
        json!({ "name": "raw.bin", "path": "/home/daytona/deep/raw.bin", "type": "file" })
    );
    assert_eq!(tools.read("deep/raw.bin"), b"\0\xff");
    let form = Form::new()
        .text("x", "y")
        .part("file", file("name", "form"));
    let request = tools
        .request(Method::POST, "/files/upload?path=deep/raw.bin")
        .multipart(form);
    tools.send(request).ok();
    assert_eq!(tools.read("deep/raw.bin"), b"form");
    tools.upload("deep", b"x").refused(400);
    tools.upload("deep/", b"x").refused(400);
    tools.upload("", b"x").refused(400);
}

/// The parts of a bulk download: headers and body.
fn bulk_download(tools: &Tools, paths: &Value) -> Vec<(String, Vec<u8>)> {
    let request = tools
        .request(Method::POST, "/files/bulk-download")
        .json(&json!({ "paths": paths }));
    let (kind, body) = tools.server.block_on(async {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        let kind = response.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        (kind, response.bytes().await.unwrap().to_vec())
    });
    let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
    let text = latin1(&body);
    assert!(text.ends_with(&format!("--{boundary}--\r\n")), "{text}");
    let delimiter = format!("--{boundary}\r\n");
    let parts = text.split(&delimiter).skip(1);
    let split = |part: &str| {
        let (headers, body) = part.split_once("\r\n\r\n").unwrap();
        let body = body.split(&format!("\r\n--{boundary}--")).next().unwrap();
        let body = body.strip_suffix("\r\n").unwrap_or(body);
        let bytes = body.chars().map(|byte| u8::try_from(byte).unwrap());
        (headers.to_owned(), bytes.collect())
    };
    parts.map(split).collect()
}

/// Each byte as one character, so that text functions work on bytes.
fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

#[test]
fn many_files_come_out_with_their_errors() {
    let tools = Tools::new();
    tools.write("a \"b\".bin", b"\0\r\n--x\xff");
    tools.write("empty", b"");
    let hostile = "x\r\nX-Evil: 1";
    let parts = bulk_download(
        &tools,
        &json!([
            "a \"b\".bin",
            "none",
            "empty",
            hostile,
            "/dev/zero",
            "a \"b\".bin"
        ]),
    );
    assert_eq!(parts.len(), 6);
    let (headers, body) = &parts[0];
    assert!(
        headers.contains(
            "name=\"file\"; filename=\"a \\\"b\\\".bin\"; filename*=utf-8''a%20%22b%22.bin"
        ),
        "{headers}"
    );
    assert!(headers.contains("Content-Length: 7"), "{headers}");
    assert_eq!(body, b"\0\r\n--x\xff");
    let (headers, body) = &parts[1];
    assert!(
        headers.contains("name=\"error\"; filename=\"none\""),
        "{headers}"
    );
    let error: Value = serde_json::from_slice(body).unwrap();
    assert_eq!(
        (&error["code"], &error["statusCode"]),
        (&json!("FILE_NOT_FOUND"), &json!(404))
    );
    assert_eq!(error["source"], "DAYTONA_DAEMON");
    assert!(error["message"].as_str().unwrap().contains("`none`"));
    assert!(parts[2].0.contains("Content-Length: 0") && parts[2].1.is_empty());
    assert!(
        !parts[3].0.lines().any(|line| line.starts_with("X-Evil")),
        "{}",
        parts[3].0
    );
    assert!(parts[4].0.contains("name=\"error\""));
    assert_eq!(parts[5], parts[0]);
    tools
        .post("/files/bulk-download", json!({ "paths": [] }))
        .refused(400);
}

fn signed(tools: &Tools, key: &str, method: FileMethod, path: &str, expires: u64) -> String {
    let signature = sign(
        &Hidden::from(key),
        method,
        path,
        Expires::at_unix_seconds(expires),
    );
    let operation = match method {
        FileMethod::Download => "download",
        FileMethod::Upload => "upload-v2",
    };
    tools.url(&format!(
        "/files/{operation}?path={path}&expires={expires}&signature={signature}"
    ))
}

#[test]
fn a_signed_address_opens_one_file_for_one_thing() {
    let tools = Tools::new();
    let key = tools
        .server
        .get(&format!("/api/sandbox/{}/signing-key", tools.id))
        .ok();
    let key = key.as_str().unwrap();
    let client = reqwest::Client::new();
    let get = |url: String| {
        tools.server.block_on(async {
            let response = client.get(url).send().await.unwrap();
            (response.status().as_u16(), response.text().await.unwrap())
        })
    };
    let put = |url: String, body: &'static str| {
        tools.server.block_on(async {
            client
                .post(url)
                .body(body)
                .send()
                .await
                .unwrap()
                .status()
                .as_u16()
        })
    };
    let (download, upload) = (FileMethod::Download, FileMethod::Upload);
    assert_eq!(put(signed(&tools, key, upload, "s.txt", 0), "signed"), 200);
    assert_eq!(
        get(signed(&tools, key, download, "s.txt", 0)),
        (200, "signed".into())
    );
    assert_eq!(
        get(signed(&tools, key, download, "s.txt", u64::from(u32::MAX))).0,
        200
    );

    let (status, body) = get(signed(&tools, key, download, "s.txt", 1));
    assert_eq!(status, 403);
    assert!(body.contains("expired"), "{body}");
    assert_eq!(
        get(signed(&tools, "other key", download, "s.txt", 0)).0,
        401
    );
    assert_eq!(
        get(signed(&tools, key, upload, "s.txt", 0).replace("upload-v2", "download")).0,
        401
    );
    assert_eq!(
        put(
            signed(&tools, key, download, "s.txt", 0).replace("download", "upload-v2"),
            "x"
        ),
        401
    );
    assert_eq!(
        get(signed(&tools, key, download, "s.txt", 0).replace("s.txt", "t.txt")).0,
        401
    );
    assert_eq!(
        get(signed(&tools, key, download, "s.txt", 1).replace("expires=1", "expires=0")).0,
        401
    );
    // Of another operation, of another sandbox, of none.
    let info = signed(&tools, key, download, "s.txt", 0).replace("files/download", "files/info");
    assert_eq!(get(info).0, 401);
    let other = tools.server.sandbox();
    assert_eq!(
        get(signed(&tools, key, download, "s.txt", 0).replace(&tools.id, &other)).0,
        401
    );
    assert_eq!(
        get(signed(&tools, key, download, "s.txt", 0).replace(&tools.id, "none")).0,
        401
    );
    let rotated = format!("/api/sandbox/{}/signing-key/rotate", tools.id);
    tools.server.post(&rotated, json!({})).ok();
    assert_eq!(get(signed(&tools, key, download, "s.txt", 0)).0, 401);
}

/// A file that is cut while it is sent cannot keep its announced length: the client sees that it is not whole.
#[test]
fn a_file_that_shrinks_while_it_is_sent_is_not_taken_for_whole() {
    let tools = Tools::new();
    tools.run("truncate -s 200M big");
    let request = tools.request(Method::GET, "/files/download?path=big");
    let outcome = tools.server.block_on(async {
        let mut response = request.send().await.unwrap();
        response.chunk().await.unwrap();
        response
    });
    tools.run("truncate -s 1 big");
    assert!(tools.server.block_on(outcome.bytes()).is_err());
}

fn resident_kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The server and this client are one process: what both hold must stay small.
#[test]
fn half_a_gibibyte_goes_both_ways_in_little_memory() {
    const BYTES: u64 = 512 << 20;
    let tools = Tools::new();
    tools.write("warm-up", b"x");
    tools.read("warm-up");
    let before = resident_kib("VmHWM");
    let piece = bytes::Bytes::from(vec![b'x'; 256 << 10]);
    let pieces = BYTES / (256 << 10);
    let stream = || {
        let piece = piece.clone();
        futures_util::stream::iter((0..pieces).map(move |_| Ok::<_, std::io::Error>(piece.clone())))
    };
    let raw = tools.request(Method::POST, "/files/upload-v2?path=raw");
    tools
        .send(raw.body(reqwest::Body::wrap_stream(stream())))
        .ok();
    let form = Form::new().text("files[0].path", "form").part(
        "files[0].file",
        Part::stream(reqwest::Body::wrap_stream(stream())),
    );
    let answer = bulk_upload(&tools, form).ok();
    assert_eq!(answer["files"][0]["bytes"], BYTES);
    let downloads = [
        tools.request(Method::GET, "/files/download?path=form"),
        tools
            .request(Method::POST, "/files/bulk-download")
            .json(&json!({ "paths": ["raw"] })),
    ];
    for request in downloads {
        let received = tools.server.block_on(async {
            let mut response = request.send().await.unwrap();
            let mut received = 0;
            while let Some(chunk) = response.chunk().await.unwrap() {
                received += chunk.len() as u64;
            }
            received
        });
        assert!((BYTES..BYTES + 1_000).contains(&received), "{received}");
    }
    let grown = resident_kib("VmHWM") - before;
    assert!(grown < 64 << 10, "{grown} KiB");
}
