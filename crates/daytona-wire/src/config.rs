//! What a server says about itself.

use std::collections::BTreeMap;

wire_structs! {
    /// The answer of `GET /config`.
    #[serde(rename_all = "camelCase")]
    pub struct DaytonaConfiguration {
        pub version: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub build_sha: Option<String>,
        pub oidc: OidcConfig,
        pub linked_accounts_enabled: bool,
        pub announcements: Announcements,
        pub proxy_template_url: String,
        pub proxy_toolbox_url: String,
        pub default_snapshot: String,
        pub dashboard_url: String,
        pub max_auto_archive_interval: u32,
        /// Spelt so on the wire.
        pub maintanance_mode: bool,
        pub environment: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub billing_api_url: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub analytics_api_url: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ssh_gateway_command: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ssh_gateway_public_key: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ssh_gateway_host: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ssh_gateway_port: Option<u16>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub ssh_gateway_host_keys: Vec<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub ssh_gateway_host_key_fingerprints: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub rate_limit: Option<RateLimitConfig>,
    }

    /// Where people sign in; empty texts when keys are all there is.
    #[serde(rename_all = "camelCase")]
    pub struct OidcConfig {
        pub issuer: String,
        pub client_id: String,
        pub audience: String,
        /// Required since 0.226.
        pub provider: String,
    }

    /// A notice for the dashboard.
    #[serde(rename_all = "camelCase")]
    pub struct Announcement {
        pub text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub learn_more_url: Option<String>,
    }

    /// How often clients may ask.
    #[serde(rename_all = "camelCase")]
    pub struct RateLimitConfig {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub failed_auth: Option<RateLimitEntry>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub authenticated: Option<RateLimitEntry>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub sandbox_create: Option<RateLimitEntry>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub sandbox_lifecycle: Option<RateLimitEntry>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub sandbox_list: Option<RateLimitEntry>,
    }

    /// So many requests in so many seconds.
    #[serde(rename_all = "camelCase")]
    pub struct RateLimitEntry {
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ttl: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub limit: Option<u32>,
    }
}

type Announcements = BTreeMap<String, Announcement>;
