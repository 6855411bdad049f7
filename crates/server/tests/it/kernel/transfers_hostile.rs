//! Transfers that somebody disturbs: odd forms, clients that stop, boxes that swap folders.

use std::io::{Read, Write};
use std::net::TcpStream;

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::json;

use super::inside::Tools;
use super::transfers::bulk_upload;
use crate::support::{Answer, TestServer};

/// A form written by hand.
fn raw_form(tools: &Tools, path: &str, body: impl Into<Vec<u8>>) -> Answer {
    let request = tools
        .request(Method::POST, path)
        .header("content-type", "multipart/form-data; boundary=xyz")
        .body(body.into());
    tools.send(request)
}

fn field(name: &str, content: &str) -> String {
    format!("--xyz\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{content}\r\n")
}

#[test]
fn odd_forms_are_refused_and_write_nothing() {
    let tools = Tools::new();
    let bulk = "/files/bulk-upload";
    let plain = tools.request(Method::POST, bulk).body("x");
    tools.send(plain).refused(400);
    let no_boundary = tools
        .request(Method::POST, bulk)
        .header("content-type", "multipart/form-data")
        .body("x");
    assert!(tools.send(no_boundary).refused(400).contains("boundary="));
    let path = field("files[0].path", "odd");
    let giant = format!("--xyz\r\nX: {}\r\n\r\n\r\n--xyz--", "x".repeat(1 << 20));
    let many = format!("{}--xyz--\r\n", field("x", "").repeat(20_001));
    let not_text = [
        &b"--xyz\r\nContent-Disposition: form-data; name=\"files[0].path\"\r\n\r\n\xff\xfe\r\n"[..],
        b"--xyz--",
    ]
    .concat();
    for body in [
        Vec::new(),
        b"--xyz--".to_vec(),
        giant.into_bytes(),
        many.into_bytes(),
        not_text,
        format!("{path}--xyz--").into_bytes(),
        format!("{path}{}", field("files[0].file", "cut").trim_end()).into_bytes(),
        format!("{}--xyz--", field("files[0].path", &"x".repeat(5_000))).into_bytes(),
    ] {
        let answer = raw_form(&tools, bulk, body);
        assert_eq!(answer.status, 400, "{answer:?}");
        assert_eq!(answer.body["files"], json!([]));
        assert!(!answer.body["errors"].as_array().unwrap().is_empty());
    }
    tools.get("/files/info?path=odd").refused(404);
    raw_form(
        &tools,
        "/files/upload-v2?path=odd",
        field("other", "x") + "--xyz--",
    )
    .refused(400);
    tools.get("/files/info?path=odd").refused(404);
    // Ten thousand files are many, and fine.
    let fields = |index| {
        field(
            &format!("files[{index}].path"),
            &format!("many/{}", index % 10),
        ) + &field(&format!("files[{index}].file"), "x")
    };
    let body = (0..200).map(fields).collect::<String>() + "--xyz--";
    assert_eq!(
        raw_form(&tools, bulk, body).ok()["files"]
            .as_array()
            .unwrap()
            .len(),
        200
    );
}

/// Opens a connection and sends the head of an upload of this length.
fn begin_upload(tools: &Tools, path: &str, length: usize) -> TcpStream {
    let address = tools.server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: {length}\r\n\r\n",
        tools.path(&format!("/files/upload-v2?path={path}")),
        tools.server.key
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

#[test]
fn an_upload_that_is_cut_off_leaves_the_old_file() {
    let tools = Tools::new();
    tools.write("folder/file", b"old");
    let mut stream = begin_upload(&tools, "folder/file", 10_000_000);
    stream.write_all(&vec![b'x'; 5_000_000]).unwrap();
    let entries = || {
        tools
            .get("/files?path=folder")
            .ok()
            .as_array()
            .unwrap()
            .len()
    };
    tools.wait_for("the upload has begun", || entries() == 2);
    assert_eq!(tools.read("folder/file"), b"old");
    drop(stream);
    tools.wait_for("nothing is left of it", || entries() == 1);
    assert_eq!(tools.read("folder/file"), b"old");
}

/// The folder is swapped for a link to elsewhere while its file is on its way.
#[test]
fn a_swapped_folder_does_not_lead_an_upload_astray() {
    let tools = Tools::new();
    tools.run("mkdir folder other; echo precious > other/file");
    let mut stream = begin_upload(&tools, "folder/file", 2_000_000);
    stream.write_all(&vec![b'x'; 1_500_000]).unwrap();
    tools.wait_for("the upload has begun", || {
        !tools
            .get("/files?path=folder")
            .ok()
            .as_array()
            .unwrap()
            .is_empty()
    });
    tools.run("mv folder moved; ln -s other folder");
    stream.write_all(&vec![b'x'; 500_000]).unwrap();
    let mut answer = [0; 15];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    assert_eq!(tools.read("other/file"), b"precious\n");
    assert_eq!(tools.read("moved/file").len(), 2_000_000);
}

/// Neither who sends nothing nor who takes nothing is waited for for ever.
#[test]
fn silent_clients_are_given_up() {
    let tools = Tools::on(TestServer::with(|config| {
        config.limits.silence_max = std::time::Duration::from_millis(300);
    }));
    tools.write("folder/file", b"old");
    let mut stream = begin_upload(&tools, "folder/file", 10_000_000);
    stream.write_all(b"some").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert_eq!(tools.read("folder/file"), b"old");
    assert_eq!(
        tools
            .get("/files?path=folder")
            .ok()
            .as_array()
            .unwrap()
            .len(),
        1
    );

    tools.run("truncate -s 2G large");
    let held = tools.request(Method::GET, "/files/download?path=large");
    let response = tools.server.block_on(held.send()).unwrap();
    // The file is let go of although the client keeps its connection.
    let is_open = || {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let mut paths = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        paths.any(|path| path.ends_with("large"))
    };
    assert!(is_open());
    tools.wait_for("the file is closed", || !is_open());
    drop(response);
}

#[test]
fn oversized_bodies_are_refused_before_they_are_sent() {
    let tools = Tools::on(TestServer::with(|config| {
        config.limits.upload_bytes_max = 1_000_000;
        config.limits.json_bytes_max = 10_000;
    }));
    tools.upload("large", &vec![0; 1_000_001]).refused(413);
    tools.upload("fine", &vec![0; 1_000_000]).ok();
    let form = Form::new()
        .text("files[0].path", "large")
        .part("files[0].file", Part::bytes(vec![0; 1_500_000]));
    let answer = bulk_upload(&tools, form);
    assert_eq!(answer.status, 400, "{answer:?}");
    let paths = vec!["x".repeat(100); 200];
    tools
        .post("/files/bulk-download", json!({ "paths": paths }))
        .refused(413);
    tools.get("/files/info?path=large").refused(404);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 8, max_shrink_iters: 0, ..Default::default() })]

    /// Whatever is sent as a form: there is an answer, and nothing is written but what it says.
    #[test]
    fn arbitrary_forms_write_only_what_they_say(
        bodies in proptest::collection::vec(proptest::collection::vec(pieces(), 0..16), 40)
    ) {
        let tools = Tools::new();
        let before = listing(tools.server.data.path());
        for body in bodies {
            let answer = raw_form(&tools, "/files/bulk-upload", body.concat());
            let status = answer.status.as_u16();
            assert!([200, 400].contains(&status), "{answer:?}");
            assert_eq!(status == 200, answer.body["errors"].is_null(), "{answer:?}");
            for file in answer.body["files"].as_array().unwrap() {
                let path = file["path"].as_str().unwrap();
                let found = tools.request(Method::GET, "/files/info").query(&[("path", path)]);
                assert_eq!(tools.send(found).ok()["size"], file["bytes"], "{path}");
            }
        }
        assert_eq!(listing(tools.server.data.path()), before);
    }
}

/// What forms are made of, in any order.
fn pieces() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    use proptest::prelude::*;
    let known = [
        "--xyz\r\n",
        "\r\n--xyz\r\n",
        "\r\n--xyz--",
        "\r\n\r\n",
        "Content-Disposition: form-data; name=\"files[0].path\"\r\n\r\n",
        "Content-Disposition: form-data; name=\"files[0].file\"; filename=\"../../x\"\r\n\r\n",
        "../../../../../../../../evil",
        "/etc/evil",
        "a/../b",
        "content",
    ];
    prop_oneof![
        4 => proptest::sample::select(known.map(|piece| piece.as_bytes().to_vec()).to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
    ]
}

/// The names in the folder of the host beside the server's data, and beside the box's.
fn listing(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for folder in [
        folder.to_path_buf(),
        folder.join("data"),
        folder.join("data/boxes"),
    ] {
        found.extend(
            std::fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().path()),
        );
    }
    found.sort();
    found
}
