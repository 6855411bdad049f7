//! The client itself: one connection pool, one way to ask, and the addresses that calls go to.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holm_client_tls::Roots;
use holm_thread_log::StreamName;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use reqwest::{Method, Response, Url};

use crate::answer;
use crate::credentials::Renewal;
use crate::settings::Settings;
use crate::threads::shown;
use crate::{ClientError, Deadlines, Result};

/// Shorter than what servers wait, so that a call is not sent into a connection that just closes.
const POOL_IDLE: Duration = Duration::from_secs(15);

/// A client of one server. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    http: reqwest::Client,
    api_url: Url,
    settings: Settings,
}

/// A request to make.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
    /// What follows "could not".
    pub(crate) action: String,
    /// Until the head of the answer is there.
    pub(crate) deadline: Duration,
}

impl Client {
    /// Makes no call yet.
    pub fn new(settings: Settings) -> Result<Self> {
        let api_url = base_url(&settings.api_url)?;
        let roots = match api_url.scheme() {
            "https" => Roots::of_system_and(settings.extra_roots_pem.as_deref()),
            _ => Ok(Roots::none()),
        };
        let tls = roots.and_then(|roots| roots.http_config());
        let tls = tls.map_err(|error| ClientError::Invalid {
            what: "set of root certificates",
            problem: error.to_string(),
        })?;
        let agent = HeaderValue::from_static(concat!("holm/", env!("CARGO_PKG_VERSION")));
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .http1_only()
            .connect_timeout(settings.deadlines.connect)
            .read_timeout(settings.deadlines.silence)
            .pool_idle_timeout(POOL_IDLE)
            // The token goes where the settings say and nowhere else.
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(HeaderMap::from_iter([(USER_AGENT, agent)]))
            .build()
            .map_err(|error| ClientError::Invalid {
                what: "set of settings",
                problem: error.without_url().to_string(),
            })?;
        let shared = Shared {
            http,
            api_url,
            settings,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    pub fn deadlines(&self) -> Deadlines {
        self.shared.settings.deadlines
    }

    pub(crate) fn answer_bytes_max(&self) -> usize {
        self.shared.settings.answer_bytes_max
    }

    /// A call about a stream.
    pub(crate) fn stream_call(&self, method: Method, name: &StreamName, doing: &str) -> Call {
        let mut url = self.shared.api_url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty()
                .push("stream")
                .extend(name.as_str().split('/'));
        }
        self.call(method, url, format!("{doing} {}", shown(name)))
    }

    /// A call below the API's base. Each part is one segment of the path, whatever it holds.
    pub(crate) fn api_call(&self, method: Method, parts: &[&str], action: String) -> Result<Call> {
        // Such a part would be dropped, and the call would mean something else.
        if let Some(part) = parts.iter().find(|part| matches!(**part, "" | "." | "..")) {
            return Err(ClientError::Invalid {
                what: "name",
                problem: format!("`{part}` names nothing"),
            });
        }
        let mut url = self.shared.api_url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        Ok(self.call(method, url, action))
    }

    fn call(&self, method: Method, url: Url, action: String) -> Call {
        Call {
            method,
            url,
            headers: HeaderMap::new(),
            body: None,
            action,
            deadline: self.shared.settings.deadlines.request,
        }
    }

    /// Asks, and yields an answer that is no refusal, its body unread. A refused token is renewed once: nothing has
    /// happened then, so that asking again does nothing twice.
    pub(crate) async fn send(&self, call: &Call) -> Result<Response> {
        let response = self.send_once(call).await?;
        if response.status().as_u16() != 401 {
            return self.checked(call, response).await;
        }
        let renewed = self.shared.settings.credentials.renew().await;
        match renewed.map_err(|source| ClientError::Credentials { source })? {
            Renewal::Final => self.checked(call, response).await,
            Renewal::Renewed => {
                drop(response);
                let response = self.send_once(call).await?;
                self.checked(call, response).await
            }
        }
    }

    /// As [`Client::send`], with the body, all within the deadline.
    pub(crate) async fn ask(&self, call: &Call) -> Result<(AnswerHead, Bytes)> {
        let asked = async {
            let response = self.send(call).await?;
            let head = AnswerHead {
                status: response.status().as_u16(),
                headers: response.headers().clone(),
            };
            let body = answer::body(&call.action, response, self.answer_bytes_max()).await?;
            Ok((head, body))
        };
        within(call, asked).await
    }

    async fn checked(&self, call: &Call, response: Response) -> Result<Response> {
        if response.status().is_success() {
            Ok(response)
        } else {
            within(call, async {
                Err(answer::refusal(&call.action, response).await)
            })
            .await
        }
    }

    async fn send_once(&self, call: &Call) -> Result<Response> {
        let token = self.shared.settings.credentials.token().await;
        let token = token.map_err(|source| ClientError::Credentials { source })?;
        let mut request = self
            .shared
            .http
            .request(call.method.clone(), call.url.clone())
            .headers(call.headers.clone());
        if !token.is_empty() {
            request = request.header(AUTHORIZATION, bearer(token.expose())?);
        }
        if let Some(body) = &call.body {
            request = request.body(body.clone());
        }
        let sent = async {
            let sent = request.send().await;
            sent.map_err(|error| answer::cut(&call.action, error))
        };
        within(call, sent).await
    }
}

/// The head of an answer whose body was read.
#[derive(Debug)]
pub(crate) struct AnswerHead {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
}

async fn within<T>(call: &Call, future: impl Future<Output = Result<T>>) -> Result<T> {
    let timed_out = ClientError::TimedOut {
        action: call.action.clone(),
        after: call.deadline,
    };
    tokio::time::timeout(call.deadline, future)
        .await
        .unwrap_or(Err(timed_out))
}

impl Call {
    /// Names are ours and values are checked: what no header can carry is left out, and the server says what it misses.
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    pub(crate) fn body(mut self, body: Bytes) -> Self {
        self.body = Some(body);
        self
    }

    pub(crate) fn query(mut self, name: &str, value: &str) -> Self {
        self.url.query_pairs_mut().append_pair(name, value);
        self
    }

    pub(crate) fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }
}

fn bearer(token: &str) -> Result<HeaderValue> {
    let mut value =
        HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| ClientError::Invalid {
            what: "key",
            problem: "it holds characters that no header can carry".to_owned(),
        })?;
    value.set_sensitive(true);
    Ok(value)
}

/// An address that others are appended to.
fn base_url(text: &str) -> Result<Url> {
    let unusable = |problem: &str| ClientError::Invalid {
        what: "address of a server",
        problem: format!("{problem}; write it as `https://holm.example.org/api`"),
    };
    let url = Url::parse(text.trim()).map_err(|error| unusable(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(unusable("it is no address of the web"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unusable("it holds a user name or a password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(unusable("it has a `?` or a `#`"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(url: &str) -> Result<Client> {
        Client::new(Settings::new(url, "secret-key-0123"))
    }

    #[test]
    fn streams_lie_below_the_api() {
        let client = client("http://host:1/api/").unwrap();
        let name: StreamName = "a/b:c@d".parse().unwrap();
        let call = client.stream_call(Method::GET, &name, "read");
        assert_eq!(call.url.as_str(), "http://host:1/api/stream/a/b:c@d");
        let call = client.api_call(Method::GET, &["threads", "a/../b?c"], "x".into());
        assert_eq!(
            call.unwrap().url.as_str(),
            "http://host:1/api/threads/a%2F..%2Fb%3Fc"
        );
        assert!(client.api_call(Method::GET, &[".."], "x".into()).is_err());
    }

    #[test]
    fn odd_addresses_are_refused_with_what_is_wrong() {
        for (address, problem) in [
            ("host/api", "relative URL"),
            ("file:///etc", "no address of the web"),
            ("https://user:pass@host/api", "user name or a password"),
            ("https://host/api?x=1", "`?`"),
        ] {
            let error = client(address).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
            assert!(!error.contains("pass@"), "{error}");
        }
    }

    #[test]
    fn a_key_does_not_print() {
        let shown = format!("{:#?}", client("http://127.0.0.1:1/api").unwrap());
        assert!(!shown.contains("secret-key-0123"), "{shown}");
        let bearer = bearer("secret-key-0123").unwrap();
        assert!(!format!("{bearer:?}").contains("secret"));
    }
}
