//! The server is killed at random points under load, and started again on the same data.
//!
//! Whatever was acknowledged is there afterwards; what was not is there whole or not at all; and nothing runs or lies
//! around that belongs to nobody. `HOLM_TEST_CRASH_ROUNDS` makes more rounds, `HOLM_TEST_CRASH_SEED` repeats the
//! choices of a run (not its timing).

mod load;
mod points;
mod traces;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::server::{Client, KEY, Serving, data};
use crate::support::{TestEnvironment, is_root, names_in, pause, wait_until};

const WORKERS: u64 = 4;
const ROUNDS: u64 = 6;

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Good enough to choose with (xorshift64).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        // Seeds that differ by little shall not give choices that do.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A process that nobody waits for, and that shows whether its box was the same all the time.
struct Counter {
    sandbox: String,
    pid: String,
}

impl Counter {
    fn start(client: &Client) -> Self {
        let made = client.post("/api/sandbox", &serde_json::json!({ "name": "counter" }));
        let sandbox = made.ok()["id"].as_str().unwrap().to_owned();
        let count = "echo $$ > pid; n=0; while :; do n=$((n+1)); echo $n > count.new; mv count.new count; \
                     sleep 0.02; done";
        client.run(
            &sandbox,
            &format!("setsid bash -c '{count}' > /dev/null 2>&1 < /dev/null & sleep 0.2"),
        );
        let pid = client.run(&sandbox, "cat pid");
        Self { sandbox, pid }
    }

    fn count(&self, client: &Client) -> u64 {
        client.run(&self.sandbox, "cat count").parse().unwrap()
    }

    fn assert_counts(&self, client: &Client) {
        assert_eq!(client.run(&self.sandbox, "cat pid"), self.pid);
        let before = self.count(client);
        wait_until("the counter counts", || self.count(client) > before);
    }
}

#[test]
fn what_was_acknowledged_survives_kills_under_load() {
    if !is_root() {
        eprintln!("skipped: this test needs root");
        return;
    }
    let seed = number_from("HOLM_TEST_CRASH_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos())
    });
    eprintln!("HOLM_TEST_CRASH_SEED={seed}");
    let mut random = Random::new(seed);
    let env = TestEnvironment::new().with("HOLM_API_KEY", KEY);
    let mut workers: Vec<load::Worker> = (0..WORKERS)
        .map(|index| load::Worker::new(index, seed ^ index))
        .collect();
    let mut server = Serving::start(&env, &[]);
    let counter = Counter::start(&server.client());
    // Of every sandbox that there ever was, also of those that nobody was told of.
    let mut ids = BTreeSet::new();
    for _ in 0..number_from("HOLM_TEST_CRASH_ROUNDS").unwrap_or(ROUNDS) {
        let client = server.client();
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for worker in &mut workers {
                let (client, ends) = (client.clone(), &ends);
                scope.spawn(move || worker.work(&client, ends));
            }
            pause(Duration::from_millis(50 + random.below(2_000)));
            server.kill();
            ends.store(true, Ordering::Relaxed);
        });
        ids.extend(names_in(&data(&env).join("boxes")));
        server = Serving::start(&env, &[]);
        let client = server.client();
        traces::assert_all_accounted_for(&env, &client);
        counter.assert_counts(&client);
        for worker in &mut workers {
            worker.check(&client);
        }
    }
    let client = server.client();
    let acknowledged: u64 = workers.iter().map(|worker| worker.acknowledged).sum();
    assert!(acknowledged > 20, "only {acknowledged} changes were made");
    for worker in workers {
        worker.finish(&client);
    }
    traces::delete_everything(&client);
    traces::assert_nothing_left(&env, &ids);
    assert_eq!(server.stop().code(), Some(0));
}
