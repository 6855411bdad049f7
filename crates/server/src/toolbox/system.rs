//! The machine itself: figures, environment, ports, version.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::Path;
use axum::routing::{get, post};
use axum::{Json, Router};
use holm_daytona_wire::system::{
    IsPortInUseResponse, PortList, SystemMetrics, UpdateEnvRequest, VersionResponse,
};
use holm_sandbox_linux::disk_space;
use serde_json::{Value, json};

use super::Inside;
use crate::api::body::Body;
use crate::clock;
use crate::error::{ApiError, Result};
use crate::machines::outside::GATEWAY_PORT;
use crate::state::AppState;

const GIB: u64 = 1024 * 1024 * 1024;
/// Closer samples say little: the last figure is told again.
const SAMPLE_TIME_MIN: Duration = Duration::from_millis(200);
/// What one variable may hold, as the kernel bounds it (`MAX_ARG_STRLEN`).
const VARIABLE_BYTES_MAX: usize = 128 * 1024;
const VARIABLES_MAX: usize = 1_000;

pub(super) fn router() -> Router<AppState> {
    Router::new()
        .route("/system/metrics", get(metrics))
        .route("/env", post(update_env))
        .route("/port", get(ports))
        .route("/port/{port}/in-use", get(is_port_in_use))
        .route("/version", get(version))
}

/// How much of the processor was used, between one question and the next.
#[derive(Debug, Default)]
pub(super) struct ProcessorMeter {
    last: Mutex<Option<Sample>>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    used_usec: u64,
    percent: f64,
}

impl ProcessorMeter {
    /// The percentage of `processors` since the last sample; 0 at first.
    fn percent(&self, used_usec: u64, processors: u32, now: Instant) -> f64 {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let percent = match *last {
            None => 0.0,
            Some(before) => {
                let passed = now.saturating_duration_since(before.at);
                if passed < SAMPLE_TIME_MIN {
                    return before.percent;
                }
                let used = Duration::from_micros(used_usec.saturating_sub(before.used_usec));
                let available = passed.as_secs_f64() * f64::from(processors.max(1));
                used.as_secs_f64() / available * 100.0
            }
        };
        *last = Some(Sample {
            at: now,
            used_usec,
            percent,
        });
        percent
    }
}

async fn metrics(inside: Inside) -> Result<Json<SystemMetrics>> {
    let resources = inside.sandbox.peek(|record| record.resources);
    let data = inside.state.config.data.clone();
    let measured = inside.machine.blocking(move |machine| {
        let usage = machine.inner().usage();
        let disk = disk_space(&data).map_err(|error| {
            ApiError::internal("could not find the space of the data folder", error)
        })?;
        let now = clock::now();
        let cpu_used_pct = machine.toolbox.processor.percent(
            usage.cpu_usec.unwrap_or(0),
            resources.cpu,
            Instant::now(),
        );
        Ok::<_, ApiError>(SystemMetrics {
            timestamp: clock::rfc3339(now),
            timestamp_unix: now / 1_000,
            cpu_count: resources.cpu,
            cpu_used_pct,
            mem_total: u64::from(resources.memory_gib) * GIB,
            mem_used: usage.memory_bytes.unwrap_or(0),
            mem_cache: usage.memory_cache_bytes.unwrap_or(0),
            disk_total: disk.total,
            disk_used: disk.used,
            disk_free: disk.free,
        })
    });
    Ok(Json(measured.await?))
}

async fn update_env(inside: Inside, Body(request): Body<UpdateEnvRequest>) -> Result<Json<Value>> {
    for (name, value) in &request.set {
        if !is_variable_name(name) {
            return Err(ApiError::bad_request(format!(
                "invalid environment variable name: '{}'",
                name.escape_debug()
            )));
        }
        if value.contains('\0') || name.len() + value.len() > VARIABLE_BYTES_MAX {
            return Err(ApiError::bad_request(format!(
                "the value of '{name}' has a NUL byte, or more than {VARIABLE_BYTES_MAX} bytes"
            )));
        }
    }
    let mut is_too_many = false;
    inside.machine.change_environment(|environment| {
        let mut changed = environment.clone();
        for name in &request.unset {
            changed.remove(name);
        }
        if let Some(prefix) = request
            .unset_value_prefix
            .filter(|prefix| !prefix.is_empty())
        {
            changed.retain(|_, value| !value.starts_with(&prefix));
        }
        changed.extend(request.set);
        is_too_many = changed.len() > VARIABLES_MAX;
        if !is_too_many {
            *environment = changed;
        }
    });
    if is_too_many {
        return Err(ApiError::bad_request(format!(
            "there would be more than {VARIABLES_MAX} variables"
        )));
    }
    Ok(Json(json!({ "message": "environment updated" })))
}

fn is_variable_name(name: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_fine)
        && name
            .bytes()
            .next()
            .is_some_and(|first| !first.is_ascii_digit())
}

async fn ports(inside: Inside) -> Result<Json<PortList>> {
    let found = inside
        .machine
        .blocking(|machine| machine.inner().listening_ports());
    let mut ports = found.await?;
    ports.sort_unstable();
    ports.dedup();
    // The way out is the server's own, not something that runs in the sandbox.
    ports.retain(|port| *port != GATEWAY_PORT);
    Ok(Json(PortList { ports }))
}

async fn is_port_in_use(
    inside: Inside,
    Path(named): Path<std::collections::HashMap<String, String>>,
) -> Result<Json<IsPortInUseResponse>> {
    let port = named.get("port").map(String::as_str).unwrap_or_default();
    let port: u16 = match port.parse() {
        Ok(port) if port > 0 => port,
        Ok(_) | Err(_) => {
            return Err(ApiError::bad_request(format!(
                "`{port}` is no port: give a number from 1 to 65535"
            )));
        }
    };
    let ports = inside
        .machine
        .blocking(|machine| machine.inner().listening_ports());
    let is_in_use = ports.await?.contains(&port);
    Ok(Json(IsPortInUseResponse { is_in_use }))
}

async fn version(_inside: Inside) -> Json<VersionResponse> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Json(VersionResponse { version })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_measured_between_questions() {
        let meter = ProcessorMeter::default();
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let rounded = |percent: f64| format!("{percent:.1}");
        assert_eq!(rounded(meter.percent(5_000_000, 2, start)), "0.0");
        assert_eq!(rounded(meter.percent(6_000_000, 2, after(1_000))), "50.0");
        assert_eq!(
            rounded(meter.percent(9_000_000, 2, after(1_010))),
            "50.0",
            "too soon"
        );
        assert_eq!(rounded(meter.percent(8_000_000, 2, after(2_000))), "100.0");
        // A box that was started anew counts from zero.
        assert_eq!(rounded(meter.percent(0, 2, after(3_000))), "0.0");
    }

    #[test]
    fn variables_have_names_that_shells_know() {
        for name in ["A", "_x1", "PATH"] {
            assert!(is_variable_name(name), "{name}");
        }
        for name in ["", "1A", "A=B", "A-B", "ä", "A\0"] {
            assert!(!is_variable_name(name), "{name}");
        }
    }
}
