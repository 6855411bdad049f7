//! Which repository of GitHub a user means.
//!
//! **Invariants:** a [`GitHubRepo`] holds only characters that are safe in a URL, in a path and on a command line, and
//! neither part is `.`, `..` or begins with a hyphen; a token that somebody put into a URL is not repeated in the error.

use std::fmt;

use crate::{Result, SandboxError};

const OWNER_BYTES_MAX: usize = 39;
const NAME_BYTES_MAX: usize = 100;
const HOST: &str = "https://github.com/";

/// A repository on github.com.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GitHubRepo {
    /// The user or organisation.
    pub owner: String,
    /// The repository, without `.git`.
    pub name: String,
}

impl GitHubRepo {
    /// Where it is cloned from. No credentials are in it.
    #[must_use]
    pub fn clone_url(&self) -> String {
        format!("{HOST}{}/{}.git", self.owner, self.name)
    }
}

impl fmt::Display for GitHubRepo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.owner, self.name)
    }
}

/// Reads `org/repo`, `https://github.com/org/repo` or `https://github.com/org/repo.git`.
///
/// # Errors
///
/// [`SandboxError::Invalid`] for other hosts, bare names, local paths and names that GitHub does not give.
pub fn parse_github_repo(repo: &str) -> Result<GitHubRepo> {
    let invalid = || SandboxError::Invalid {
        what: format!("`{}` is not a GitHub repository", without_user_info(repo)),
        hint: "write it as `org/repo` or `https://github.com/org/repo`".to_owned(),
    };
    if is_local_path(repo) {
        return Err(invalid());
    }
    let short = repo.strip_prefix(HOST).unwrap_or(repo);
    let short = short.strip_suffix(".git").unwrap_or(short);
    // A second slash ends up in the name, where it is refused.
    match short.split_once('/') {
        Some((owner, name)) if is_owner(owner) && is_name(name) => Ok(GitHubRepo {
            owner: owner.to_owned(),
            name: name.to_owned(),
        }),
        _ => Err(invalid()),
    }
}

/// Whether `repo` means a directory of this machine rather than `org/repo`: it begins with `/`, `~`, `./` or `../`,
/// is `.` or `..`, has no slash at all, or begins with a Windows drive.
#[must_use]
pub fn is_local_path(repo: &str) -> bool {
    if repo.starts_with(['/', '~']) || repo.starts_with("./") || repo.starts_with("../") {
        return true;
    }
    // No slash at all is a bare name (or `.`, or `..`), and not a pair of owner and name.
    if !repo.contains('/') {
        return true;
    }
    matches!(repo.as_bytes(), [drive, b':', ..] if drive.is_ascii_alphabetic())
}

/// Underscores are in the names of managed users.
fn is_owner(owner: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !owner.is_empty()
        && owner.len() <= OWNER_BYTES_MAX
        && !owner.starts_with('-')
        && owner.bytes().all(allowed)
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !matches!(name, "." | "..")
        // It becomes the name of a directory, which some command could take for an option.
        && !name.starts_with('-')
        && name.bytes().all(allowed)
}

/// `https://user:token@host/…` without what stands before the `@`.
fn without_user_info(repo: &str) -> String {
    let (scheme, rest) = match repo.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), repo),
    };
    let authority_end = rest.find('/').unwrap_or(rest.len());
    match rest[..authority_end].rfind('@') {
        Some(at) => format!("{scheme}[hidden]{}", &rest[at..]),
        None => repo.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(repo: &str) -> (String, String) {
        let GitHubRepo { owner, name } = parse_github_repo(repo).unwrap();
        (owner, name)
    }

    fn widgets() -> (String, String) {
        ("acme".to_owned(), "widgets".to_owned())
    }

    #[test]
    fn org_repo_shorthand() {
        assert_eq!(parsed("acme/widgets"), widgets());
    }

    #[test]
    fn full_https_url() {
        assert_eq!(parsed("https://github.com/acme/widgets"), widgets());
    }

    #[test]
    fn full_https_url_with_git_suffix() {
        assert_eq!(parsed("https://github.com/acme/widgets.git"), widgets());
    }

    #[test]
    fn other_hosts_are_refused() {
        for repo in [
            "https://gitlab.com/acme/widgets",
            "https://github.com.evil.org/acme/widgets",
            "http://github.com/acme/widgets",
            "git@github.com:acme/widgets",
        ] {
            assert!(parse_github_repo(repo).is_err(), "{repo}");
        }
    }

    #[test]
    fn a_bare_name_is_refused() {
        assert_eq!(
            parse_github_repo("widgets").unwrap_err().to_string(),
            "`widgets` is not a GitHub repository"
        );
    }

    #[test]
    fn ac_19_local_paths_are_refused() {
        for repo in [
            "./my-project",
            "/Users/x/repo",
            "~/x",
            ".",
            "..",
            "../x",
            r"C:\x/y",
            "c:/x",
        ] {
            assert!(is_local_path(repo), "{repo}");
            assert!(parse_github_repo(repo).is_err(), "{repo}");
        }
        assert!(!is_local_path("acme/widgets"));
        assert!(!is_local_path("https://github.com/acme/widgets"));
    }

    #[test]
    fn only_names_that_github_gives_are_taken() {
        assert_eq!(parsed("a_corp/.github").1, ".github");
        assert_eq!(parsed("acme/a.b-c_d").1, "a.b-c_d");
        for repo in [
            "acme/",
            "/widgets",
            "acme/..",
            "acme/.",
            "acme/.git",
            "acme/a/b",
            "acme//a",
            "acme/widgets/",
            "-acme/a",
            "acme/-a",
            "acme/a b",
            "acme/a;b",
            "acme/$(a)",
            "acme/a\n",
            "acmé/a",
            "acme/a?b",
            "a.b/c",
        ] {
            assert!(parse_github_repo(repo).is_err(), "{repo:?}");
        }
        assert!(parse_github_repo(&format!("{}/x", "a".repeat(40))).is_err());
        assert!(parse_github_repo(&format!("x/{}", "a".repeat(101))).is_err());
    }

    #[test]
    fn a_token_in_the_url_is_not_repeated() {
        let error = parse_github_repo("https://me:ghp_0123@github.com/acme/widgets").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`https://[hidden]@github.com/acme/widgets` is not a GitHub repository"
        );
    }

    #[test]
    fn it_is_shown_short_and_cloned_in_full() {
        let repo = parse_github_repo("https://github.com/acme/widgets").unwrap();
        assert_eq!(repo.to_string(), "acme/widgets");
        assert_eq!(repo.clone_url(), "https://github.com/acme/widgets.git");
    }
}
