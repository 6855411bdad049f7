//! GitHub itself: which branch is the default one, and new pull requests.
//!
//! **Invariant:** a token goes to the address of the API and nowhere else, and is in no text of an error.

use std::time::Duration;

use holm_client_tls::Roots;
use holm_sandbox::{GitHubRepo, Redactor, Result, SandboxError, Secret};
use reqwest::{Method, Response};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
const MESSAGE_CHARACTERS_MAX: usize = 500;

/// Where repositories and their API are.
#[derive(Debug, Clone)]
pub struct GitHub {
    /// What `owner/name.git` is appended to.
    pub git_base: String,
    /// What `repos/owner/name` is appended to.
    pub api_base: String,
}

impl Default for GitHub {
    fn default() -> Self {
        Self {
            git_base: "https://github.com".to_owned(),
            api_base: "https://api.github.com".to_owned(),
        }
    }
}

impl GitHub {
    /// Where a repository is cloned from. No credentials are in it.
    #[must_use]
    pub fn clone_url(&self, repo: &GitHubRepo) -> String {
        let base = self.git_base.trim_end_matches('/');
        format!("{base}/{}/{}.git", repo.owner, repo.name)
    }

    /// The branch that pull requests go to.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Backend`] when GitHub does not say.
    pub async fn default_branch(
        &self,
        repo: &GitHubRepo,
        token: Option<&Secret>,
    ) -> Result<String> {
        let doing = format!("find the default branch of `{repo}`");
        let answer = self.ask(Method::GET, &repo_path(repo), None, token).await;
        let answer = answer.and_then(|answer| text_of(&answer, "default_branch"));
        answer.map_err(|problem| failed(doing, problem))
    }

    /// Opens a pull request and gives its address.
    ///
    /// # Errors
    ///
    /// Why GitHub did not open it, without the token.
    pub async fn create_pull_request(
        &self,
        repo: &GitHubRepo,
        request: &NewPullRequest<'_>,
        token: &Secret,
    ) -> std::result::Result<String, String> {
        let body = json!({
            "title": request.title,
            "body": request.body,
            "head": request.head,
            "base": request.base,
        });
        let path = format!("{}/pulls", repo_path(repo));
        let answer = self.ask(Method::POST, &path, Some(&body), Some(token));
        text_of(&answer.await?, "html_url")
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        token: Option<&Secret>,
    ) -> std::result::Result<Value, String> {
        let redactor = |text: String| match token {
            Some(token) => {
                let none: [(&str, &str); 0] = [];
                let redactor = Redactor::from_env(none).with_secret("GITHUB_TOKEN", token);
                redactor.redact(&text).into_owned()
            }
            None => text,
        };
        let url = format!("{}{path}", self.api_base.trim_end_matches('/'));
        let client = client()?;
        let mut request = client
            .request(method, url)
            .header("accept", "application/vnd.github+json")
            .header("x-github-api-version", "2022-11-28");
        if let Some(token) = token.filter(|token| !token.is_empty()) {
            request = request.bearer_auth(token.expose());
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request
            .send()
            .await
            .map_err(|error| redactor(cause(error)))?;
        let status = response.status();
        let answer = read(response).await.map_err(redactor)?;
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        if status.is_success() {
            return Ok(answer);
        }
        Err(redactor(refusal(status.as_u16(), &answer)))
    }
}

/// What a pull request says.
#[derive(Debug)]
pub struct NewPullRequest<'a> {
    pub title: &'a str,
    pub body: &'a str,
    pub head: &'a str,
    pub base: &'a str,
}

fn repo_path(repo: &GitHubRepo) -> String {
    // Both parts hold nothing that an address would read as something else.
    format!("/repos/{}/{}", repo.owner, repo.name)
}

fn text_of(answer: &Value, name: &str) -> std::result::Result<String, String> {
    let text = answer.get(name).and_then(Value::as_str);
    let text = text.filter(|text| !text.is_empty());
    text.map(str::to_owned)
        .ok_or_else(|| format!("GitHub's answer has no `{name}`"))
}

/// GitHub's message, with the reasons that it gives one by one.
fn refusal(status: u16, answer: &Value) -> String {
    let mut text = answer["message"].as_str().unwrap_or_default().to_owned();
    for error in answer["errors"].as_array().into_iter().flatten() {
        if let Some(message) = error["message"].as_str() {
            text.push_str(&format!("; {message}"));
        }
    }
    let text: String = text.chars().take(MESSAGE_CHARACTERS_MAX).collect();
    format!("{text} (status {status})").trim_start().to_owned()
}

async fn read(mut response: Response) -> std::result::Result<Vec<u8>, String> {
    let mut answer = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(cause)? {
        if answer.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err("GitHub's answer is too long".to_owned());
        }
        answer.extend_from_slice(&chunk);
    }
    Ok(answer)
}

fn cause(error: reqwest::Error) -> String {
    use std::error::Error as _;
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn client() -> std::result::Result<reqwest::Client, String> {
    let tls = Roots::of_system().and_then(|roots| roots.http_config());
    let tls = tls.map_err(|error| error.to_string())?;
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .http1_only()
        .timeout(PATIENCE)
        // The token goes where it is sent, and not on from there.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("holm/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(cause)
}

fn failed(doing: String, problem: String) -> SandboxError {
    SandboxError::Backend {
        doing,
        hint: Some("a private repository needs a GITHUB_TOKEN that may read it".to_owned()),
        source: problem.into(),
    }
}
