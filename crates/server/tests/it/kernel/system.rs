//! Figures, environment, ports and what a box does not have.

use serde_json::json;

use super::inside::Tools;

#[test]
fn figures_are_those_of_the_sandbox() {
    let tools = Tools::new();
    let first = tools.get("/system/metrics").ok();
    assert_eq!(first["cpuUsedPct"], 0.0);
    assert_eq!(first["memTotal"].as_u64().unwrap() % (1 << 30), 0);
    assert!(first["cpuCount"].as_u64().unwrap() >= 1);
    let figure = |name: &str| first[name].as_u64().unwrap();
    assert_eq!(figure("diskTotal"), figure("diskUsed") + figure("diskFree"));
    assert!(first["timestampUnix"].as_u64().unwrap() > 1_700_000_000);
    tools.run("timeout 1 sh -c 'while :; do :; done' || true");
    let busy = tools.get("/system/metrics").ok();
    let percent = busy["cpuUsedPct"].as_f64().unwrap();
    assert!(percent > 5.0, "{busy}");
}

#[test]
fn the_environment_changes_for_commands_to_come() {
    let tools = Tools::new();
    let set = json!({ "set": { "ONE": "1", "TWO": "two words", "SECRET": "ph-1" } });
    tools.post("/env", set).ok();
    assert_eq!(
        tools.run("echo \"$ONE $TWO $SECRET\"").trim(),
        "1 two words ph-1"
    );
    let change = json!({ "set": { "TWO": "ph-2" }, "unset": ["ONE"], "unsetValuePrefix": "ph-" });
    tools.post("/env", change).ok();
    assert_eq!(tools.run("echo \"$ONE,$TWO,$SECRET\"").trim(), ",ph-2,");
    let refused = tools
        .post("/env", json!({ "set": { "A=B": "x" } }))
        .refused(400);
    assert_eq!(refused, "invalid environment variable name: 'A=B'");
    tools
        .post("/env", json!({ "set": { "A": "x\u{0}" } }))
        .refused(400);
}

#[test]
fn ports_that_listen_are_told() {
    let tools = Tools::new();
    assert_eq!(tools.get("/port").ok(), json!({ "ports": [] }));
    assert_eq!(
        tools.get("/port/8123/in-use").ok(),
        json!({ "isInUse": false })
    );
    tools.run("(python3 -m http.server 8123 >/dev/null 2>&1 &)");
    tools.wait_for("the port listens", || {
        tools.get("/port/8123/in-use").ok() == json!({ "isInUse": true })
    });
    assert_eq!(tools.get("/port").ok(), json!({ "ports": [8123] }));
    for port in ["0", "70000", "x", "-1"] {
        tools.get(&format!("/port/{port}/in-use")).refused(400);
    }
}

#[test]
fn a_box_has_no_screen_and_says_so() {
    let tools = Tools::new();
    for path in [
        "/computeruse/status",
        "/computeruse/screenshot?showCursor=false",
        "/computeruse/a11y/tree",
    ] {
        let message = tools.get(path).refused(503);
        assert!(message.contains("not available"), "{message}");
    }
    tools
        .post("/computeruse/mouse/click", json!({}))
        .refused(503);
    tools.get("/no/such/thing").refused(404);
    assert!(tools.get("/version").ok()["version"].is_string());
}
