//! The sandbox itself: folders, figures, ports, environment.

use crate::StringMap;

wire_structs! {
    /// The answer of `GET /user-home-dir`, `GET /work-dir` and `GET /project-dir`.
    #[serde(rename_all = "camelCase")]
    pub struct DirResponse {
        pub dir: String,
    }

    /// The answer of `GET /system/metrics`; sizes are bytes.
    #[serde(rename_all = "camelCase")]
    pub struct SystemMetrics {
        pub timestamp: String,
        pub timestamp_unix: i64,
        pub cpu_count: u32,
        pub cpu_used_pct: f64,
        pub mem_total: u64,
        pub mem_used: u64,
        pub mem_cache: u64,
        pub disk_total: u64,
        pub disk_used: u64,
        pub disk_free: u64,
    }

    /// The answer of `GET /port`.
    #[serde(rename_all = "camelCase")]
    pub struct PortList {
        pub ports: Vec<u16>,
    }

    /// The answer of `GET /port/{port}/in-use`.
    #[serde(rename_all = "camelCase")]
    pub struct IsPortInUseResponse {
        pub is_in_use: bool,
    }

    /// `POST /env`.
    #[serde(rename_all = "camelCase")]
    pub struct UpdateEnvRequest {
        #[serde(skip_serializing_if = "StringMap::is_empty")]
        pub set: StringMap,
        /// Removed before `set` is applied.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub unset: Vec<String>,
        /// Variables whose value starts so are removed, unless `set` names them.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub unset_value_prefix: Option<String>,
    }

    /// The answer of `GET /sandbox/{id}/telemetry/metrics`.
    #[serde(rename_all = "camelCase")]
    pub struct MetricsResponse {
        pub series: Vec<MetricSeries>,
    }

    /// One figure over time.
    #[serde(rename_all = "camelCase")]
    pub struct MetricSeries {
        pub metric_name: String,
        pub data_points: Vec<MetricDataPoint>,
    }

    /// One figure at one time.
    #[serde(rename_all = "camelCase")]
    pub struct MetricDataPoint {
        pub timestamp: String,
        pub value: f64,
    }

    /// The answer of `GET /version`.
    #[serde(rename_all = "camelCase")]
    pub struct VersionResponse {
        pub version: String,
    }
}
