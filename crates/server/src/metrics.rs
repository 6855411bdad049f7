//! The server in figures, in the text format of Prometheus.
//!
//! Durations are until an answer begins: a stream may go on for hours.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use holm_daytona_wire::sandbox::SandboxState;

use crate::sandboxes::{Sandboxes, StateChange};

type Label = (&'static str, &'static str);

/// Counters and gauges of one server.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<[Label; 2], Counter>,
    durations: Family<[Label; 1], Histogram>,
    create_duration: Histogram,
    requests_open: Gauge,
    connections_open: Gauge,
    sandboxes: Family<[(&'static str, String); 1], Gauge>,
    created: Counter<u64, AtomicU64>,
    stopped: Counter<u64, AtomicU64>,
    store_errors: Counter<u64, AtomicU64>,
}

/// Which part of the server a request was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Control,
    Toolbox,
    Preview,
    Other,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Toolbox => "toolbox",
            Self::Preview => "preview",
            Self::Other => "other",
        }
    }
}

/// Counts as open until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenGuard(Gauge);

impl OpenGuard {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// From a millisecond to a minute.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 17))
}

impl Metrics {
    pub(crate) fn new() -> Arc<Self> {
        let mut metrics = Self {
            registry: Registry::with_prefix("holm"),
            requests: Family::default(),
            durations: Family::new_with_constructor(durations),
            create_duration: durations(),
            requests_open: Gauge::default(),
            connections_open: Gauge::default(),
            sandboxes: Family::default(),
            created: Counter::default(),
            stopped: Counter::default(),
            store_errors: Counter::default(),
        };
        let registry = &mut metrics.registry;
        registry.register(
            "requests",
            "Requests that were answered",
            metrics.requests.clone(),
        );
        registry.register_with_unit(
            "request_duration",
            "Time until an answer began",
            Unit::Seconds,
            metrics.durations.clone(),
        );
        registry.register_with_unit(
            "sandbox_create_duration",
            "Time until a sandbox that was asked for ran",
            Unit::Seconds,
            metrics.create_duration.clone(),
        );
        registry.register(
            "requests_open",
            "Requests whose answer has not ended, streams among them",
            metrics.requests_open.clone(),
        );
        registry.register(
            "connections_open",
            "Connections, WebSockets and tunnels among them",
            metrics.connections_open.clone(),
        );
        registry.register("sandboxes", "Sandboxes by state", metrics.sandboxes.clone());
        registry.register(
            "sandboxes_created",
            "Sandboxes that were made",
            metrics.created.clone(),
        );
        registry.register(
            "sandboxes_stopped",
            "Sandboxes that were stopped",
            metrics.stopped.clone(),
        );
        registry.register(
            "store_errors",
            "Requests that failed because of the database",
            metrics.store_errors.clone(),
        );
        Arc::new(metrics)
    }

    /// A request begins; it is open until its answer has ended.
    pub(crate) fn request_opened(&self) -> OpenGuard {
        OpenGuard::new(&self.requests_open)
    }

    pub(crate) fn connection_opened(&self) -> OpenGuard {
        OpenGuard::new(&self.connections_open)
    }

    pub(crate) fn request_answered(&self, part: Part, status: u16, duration: Duration) {
        let class = match status / 100 {
            1 => "1xx",
            2 => "2xx",
            3 => "3xx",
            4 => "4xx",
            _ => "5xx",
        };
        let plane = ("plane", part.name());
        self.requests
            .get_or_create(&[plane, ("status", class)])
            .inc();
        self.durations
            .get_or_create(&[plane])
            .observe(duration.as_secs_f64());
    }

    pub(crate) fn sandbox_created_in(&self, duration: Duration) {
        self.create_duration.observe(duration.as_secs_f64());
    }

    pub(crate) fn store_failed(&self) {
        self.store_errors.inc();
    }

    /// All figures as of now, as text.
    pub(crate) fn render(&self, sandboxes: &Sandboxes) -> String {
        self.sandboxes.clear();
        for sandbox in sandboxes.all() {
            let state = [("state", sandbox.state().to_string())];
            self.sandboxes.get_or_create(&state).inc();
        }
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            // Writing to a text cannot fail.
            Err(_) => String::new(),
        }
    }

    /// Counts what happens to sandboxes, until the server ends.
    pub(crate) async fn count(self: Arc<Self>, mut changes: Receiver<StateChange>) {
        loop {
            match changes.recv().await {
                Ok(StateChange { old: None, .. }) => {
                    self.created.inc();
                }
                Ok(change) if change.record.state == SandboxState::Stopped => {
                    self.stopped.inc();
                }
                // Behind: what was missed is missing.
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }
}
