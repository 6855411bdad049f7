//! The client itself: one connection pool, one key, and the addresses that calls go to.

use std::sync::Arc;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};

use holm_client_tls::{Roots, TrustError};
use holm_daytona_wire::version::SDK_VERSION_HEADER;

use crate::request::Call;
use crate::settings::Settings;
use crate::{ClientError, Deadlines, Result};

/// Servers answer by the version that a client claims. From 0.167 on they tell both outputs apart; this is the version
/// of the documents that `daytona-wire` was written from.
pub(crate) const SDK_VERSION: &str = "0.205.1";
const SOURCE: &str = "sdk-rust-holm";
/// Shorter than what servers and load balancers wait, so that a call is not sent into a connection that just closes.
const POOL_IDLE: std::time::Duration = std::time::Duration::from_secs(15);

/// A client of Daytona's control plane. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
    deadlines: Deadlines,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) http: reqwest::Client,
    pub(crate) tls: Arc<rustls::ClientConfig>,
    pub(crate) headers: HeaderMap,
    pub(crate) api_url: Url,
    pub(crate) settings: Settings,
}

impl Client {
    /// Makes no call yet.
    pub fn new(settings: Settings) -> Result<Self> {
        let api_url = base_url("API address", &settings.api_url)?;
        let tls = tls(&api_url, settings.extra_roots_pem.as_deref());
        let tls = tls.map_err(|error| ClientError::Invalid {
            what: "set of root certificates",
            problem: error.to_string(),
        })?;
        let headers = headers(&settings)?;
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls.clone())
            .http1_only()
            .connect_timeout(settings.deadlines.connect)
            .pool_idle_timeout(POOL_IDLE)
            // The key goes where the settings say and nowhere else.
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(headers.clone())
            .build()
            .map_err(|error| ClientError::Invalid {
                what: "set of settings",
                problem: error.without_url().to_string(),
            })?;
        let deadlines = settings.deadlines;
        let shared = Arc::new(Shared {
            http,
            tls: Arc::new(tls),
            headers,
            api_url,
            settings,
        });
        Ok(Self { shared, deadlines })
    }

    /// The same client with other deadlines, for some calls; how long connecting may take stays.
    #[must_use]
    pub fn with_deadlines(&self, deadlines: Deadlines) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            deadlines,
        }
    }

    pub fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// A call of the control plane. `action` is what follows "could not".
    pub(crate) fn call(
        &self,
        method: Method,
        segments: &[&str],
        action: impl Into<String>,
    ) -> Result<Call<'_>> {
        let url = below(&self.shared.api_url, segments)?;
        Ok(Call::new(self, method, url, action.into()))
    }
}

/// Toolboxes may have TLS where the API has none. No root at all is an error only if one is needed for certain.
fn tls(
    api_url: &Url,
    extra_roots_pem: Option<&str>,
) -> std::result::Result<rustls::ClientConfig, TrustError> {
    match Roots::of_system_and(extra_roots_pem) {
        Err(TrustError::NoneFound) if api_url.scheme() != "https" => Roots::none().http_config(),
        Err(error) => Err(error),
        Ok(roots) => roots.http_config(),
    }
}

fn headers(settings: &Settings) -> Result<HeaderMap> {
    let key = settings.api_key.expose();
    if key.trim().is_empty() {
        return Err(ClientError::Invalid {
            what: "API key",
            problem: "it is empty".to_owned(),
        });
    }
    let unsendable = |what| {
        move |_: reqwest::header::InvalidHeaderValue| ClientError::Invalid {
            what,
            problem: "it holds characters that no header can carry".to_owned(),
        }
    };
    let mut bearer =
        HeaderValue::from_str(&format!("Bearer {key}")).map_err(unsendable("API key"))?;
    bearer.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, bearer);
    headers.insert(
        HeaderName::from_static("x-daytona-source"),
        HeaderValue::from_static(SOURCE),
    );
    if let Ok(name) = HeaderName::from_bytes(SDK_VERSION_HEADER.as_bytes()) {
        headers.insert(name, HeaderValue::from_static(SDK_VERSION));
    }
    headers.insert(
        reqwest::header::USER_AGENT,
        HeaderValue::from_static(concat!("holm-daytona-client/", env!("CARGO_PKG_VERSION"))),
    );
    if let Some(organization) = &settings.organization_id {
        let value = HeaderValue::from_str(organization).map_err(unsendable("organisation's id"))?;
        headers.insert(HeaderName::from_static("x-daytona-organization-id"), value);
    }
    Ok(headers)
}

/// An address that others are appended to.
pub(crate) fn base_url(what: &'static str, text: &str) -> Result<Url> {
    let unusable = |problem: &str| ClientError::Invalid {
        what,
        problem: format!("{problem}; an address like `https://host/api` is needed"),
    };
    let url = Url::parse(text.trim()).map_err(|error| unusable(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(unusable("it is not an address of the web"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unusable("it holds a user name or a password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(unusable("it has a `?` or a `#`"));
    }
    Ok(url)
}

/// The address below a base. What names a thing is one segment, whatever it holds.
pub(crate) fn below(base: &Url, segments: &[&str]) -> Result<Url> {
    // Such a segment would be dropped, and the call would mean something else: `DELETE /sandbox`.
    if let Some(segment) = segments
        .iter()
        .find(|segment| matches!(**segment, "" | "." | ".."))
    {
        return Err(ClientError::Invalid {
            what: "name",
            problem: format!("`{segment}` names nothing"),
        });
    }
    let mut url = base.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_segment() {
        let base = base_url("address", "http://host:1/api/").unwrap();
        let url = below(&base, &["sandbox", "a/../b?c#d e"]).unwrap();
        assert_eq!(
            url.as_str(),
            "http://host:1/api/sandbox/a%2F..%2Fb%3Fc%23d%20e"
        );
        for name in ["", ".", ".."] {
            assert!(below(&base, &["sandbox", name]).is_err(), "{name}");
        }
    }

    #[test]
    fn odd_addresses_are_refused_with_what_is_wrong() {
        for (address, problem) in [
            ("host/api", "relative URL"),
            ("file:///etc", "not an address of the web"),
            ("https://user:pass@host/api", "user name or a password"),
            ("https://host/api?x=1", "`?`"),
        ] {
            let error = base_url("API address", address).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
            assert!(!error.contains("pass@"), "{error}");
        }
    }

    #[test]
    fn a_key_is_needed_and_does_not_print() {
        let settings = |key: &str| Settings::new("http://127.0.0.1:1/api", key);
        let message = |key| Client::new(settings(key)).unwrap_err().to_string();
        assert_eq!(message(" "), "this API key cannot be used: it is empty");
        assert!(message("a\nb").contains("characters"));
        let client = Client::new(settings("dtn_secret_0123")).unwrap();
        let shown = format!("{client:#?}");
        assert!(!shown.contains("dtn_secret_0123"), "{shown}");
    }
}
