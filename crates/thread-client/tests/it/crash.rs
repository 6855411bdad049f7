//! A producing process that is killed again and again, while the server comes and goes and the way to it cuts.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::faulty::{Fate, FaultyWay};
use crate::producer::{entries, options};
use crate::server::{TOKEN, TestServer};
use holm_thread_client::{Client, Producer, Settings};

const ENTRIES: u64 = 3_000;
/// For a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(50);

/// Produces the numbers that are missing, and ends when all are confirmed.
#[tokio::test]
#[ignore = "the child of the other test"]
async fn child() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let url = format!("http://{}/api", variable("HOLM_TEST_SERVER"));
    let client = Client::new(Settings::new(url, TOKEN)).unwrap();
    let stream = "crash".parse().unwrap();
    let spool = variable("HOLM_TEST_SPOOL");
    let producer = Producer::open(client, options(&stream, spool.as_ref())).await;
    let producer = producer.unwrap();
    let mut next = producer.progress().accepted;
    while next < ENTRIES {
        let count = (next % 5 + 1).min(ENTRIES - next);
        next = producer.append(entries(next..next + count)).await.unwrap();
    }
    producer.flush(PATIENCE).await.unwrap();
}

struct KilledAtTheEnd(Child);

impl Drop for KilledAtTheEnd {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Waits for the child's end, for so long. The server of the last life comes back.
async fn wait(
    child: &mut Child,
    patience: Duration,
    server: &mut TestServer,
    life: u64,
) -> Option<ExitStatus> {
    let until = Instant::now() + patience;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        if life >= 40 {
            server.resume_if_stopped().await;
        }
    }
    None
}

#[tokio::test]
async fn kill_nine_loses_and_doubles_nothing() {
    let mut server = TestServer::start().await;
    let stream = server.create("crash").await;
    let spool = tempfile::tempdir().unwrap();
    let way = FaultyWay::start(server.address, |number| match number % 4 {
        0 => Fate::CutAnswer(100 + number * 7 % 900),
        1 => Fate::CutRequest(100 + number * 13 % 900),
        2 => Fate::Slow(Duration::from_millis(5)),
        _ => Fate::Good,
    })
    .await;
    let start = || {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::child", "--ignored"])
            .env("HOLM_TEST_SERVER", way.address.to_string())
            .env("HOLM_TEST_SPOOL", spool.path())
            .stdout(Stdio::inherit())
            .spawn();
        KilledAtTheEnd(child.unwrap())
    };
    let before = Instant::now();
    let mut kills = 0;
    for life in 1.. {
        // Every third life begins without a server, and most of them end without one.
        if life % 3 == 0 {
            server.stop().await;
        } else {
            server.resume_if_stopped().await;
        }
        let mut child = start();
        // Different every time, and not by a random number: a failure can be repeated. The last one may be as long as it wants.
        let patience = match life {
            0..40 => Duration::from_millis(30 + (life * 37) % 150),
            _ => PATIENCE.saturating_sub(before.elapsed()),
        };
        let ended = wait(&mut child.0, patience, &mut server, life).await;
        if let Some(status) = ended {
            assert!(status.success(), "{status}");
            break;
        }
        assert!(life < 40, "it does not come to an end");
        kills += 1;
    }
    assert!(kills > 3, "it was killed {kills} times only");
    let numbers = server.numbers(&stream).await;
    assert!(numbers.is_sorted(), "out of order");
    assert_eq!(numbers, Vec::from_iter(0..ENTRIES));
}
