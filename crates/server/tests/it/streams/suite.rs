//! The official conformance suite of Durable Streams, from its registry, over each store.
//!
//! It is installed below the build folder, once. Where the registry cannot be reached the tests are skipped, and say so.

mod browser;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use holm_daytona_wire::Hidden;
use holm_server::{LocalCalls, StreamsPlace};
use holm_testkit::PostgresServer;

use crate::support::TestServer;

const LONG_POLL: Duration = Duration::from_millis(500);
/// All of them: one that the suite leaves out is not one that passed.
const TESTS: usize = 338;

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance")
}

/// The folder with the suite and our program for it.
fn install() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance");
    fs::create_dir_all(&place).unwrap();
    let lock = fs::File::create(place.join("lock")).unwrap();
    lock.lock().unwrap();
    for name in ["package.json", "suite.test.mjs", "browser.mjs"] {
        fs::copy(programs().join(name), place.join(name)).unwrap();
    }
    let wanted = fs::read_to_string(place.join("package.json")).unwrap();
    let complete = place.join("complete");
    if fs::read_to_string(&complete).is_ok_and(|installed| installed == wanted) {
        return Some(place);
    }
    let installed = Command::new("npm")
        .args([
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--no-package-lock",
            "--prefix",
        ])
        .arg(&place)
        .status();
    if installed.is_ok_and(|status| status.success()) {
        fs::write(complete, wanted).unwrap();
        return Some(place);
    }
    let told =
        "the conformance suite was NOT run: npm is missing, or its registry cannot be reached";
    eprintln!("SKIPPED: {told}");
    None
}

fn run(place: StreamsPlace) {
    let Some(folder) = install() else {
        return;
    };
    let server = TestServer::with(|config| {
        config.streams = place;
        config.long_poll_timeout = LONG_POLL;
        config.local_calls = LocalCalls::Allowed;
    });
    let report = server.data.path().join("report.json");
    let status = Command::new("npx")
        // Some of them count to 100,000: on a busy machine that takes longer than the five seconds that they have by default.
        .args([
            "vitest",
            "run",
            "suite.test.mjs",
            "--reporter=json",
            "--testTimeout=60000",
        ])
        .arg(format!("--outputFile={}", report.display()))
        .current_dir(&folder)
        .env("HOLM_URL", &server.url)
        .env("HOLM_API_KEY", &server.key)
        .env(
            "HOLM_LONG_POLL_MILLISECONDS",
            LONG_POLL.as_millis().to_string(),
        )
        .status()
        .unwrap();
    let report = fs::read_to_string(report).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let tests = report["testResults"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|file| file["assertionResults"].as_array().unwrap());
    let failed: Vec<String> = tests
        .filter(|test| test["status"] != "passed")
        .map(|test| format!("{}: {}", test["fullName"], test["failureMessages"]))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(report["numPassedTests"], TESTS);
    assert!(status.success());
}

#[test]
fn over_sqlite() {
    run(StreamsPlace::Sqlite);
}

#[test]
fn over_postgres() {
    let Some(postgres) = PostgresServer::start() else {
        return;
    };
    run(StreamsPlace::Postgres {
        url: Hidden::new(postgres.url()),
    });
}
