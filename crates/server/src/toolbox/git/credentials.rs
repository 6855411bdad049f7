//! Names and passwords for remotes, for one run.
//!
//! They are in the environment of that run alone, and a helper given as text tells them to git when the remote asks: never in an
//! argument, in a file or in an address. Helpers that the box is set up with are off meanwhile, so that none keeps
//! them, and the helper speaks for the remote's own origin only, so that a redirection does not carry them off.

use std::ffi::OsString;

use holm_daytona_wire::Hidden;

use crate::error::{ApiError, Result};

const USERNAME: &str = "HOLM_GIT_USERNAME";
const PASSWORD: &str = "HOLM_GIT_PASSWORD";
/// Answers `get`; told to store or erase it does nothing.
const HELPER: &str = r#"!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$HOLM_GIT_USERNAME" "$HOLM_GIT_PASSWORD"; }; f"#;

/// Who we are to one remote.
#[derive(Debug, Clone)]
pub(super) struct Credentials {
    /// `https://host:port`.
    origin: String,
    username: String,
    password: Hidden,
}

/// An address as git is given it, and what stood in it.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) url: String,
    pub(super) credentials: Option<Credentials>,
}

impl Address {
    /// Takes apart an address. Credentials in it are used when no others are given, and are left out of it.
    pub(super) fn new(
        url: &str,
        username: Option<&str>,
        password: Option<&Hidden>,
    ) -> Result<Self> {
        let given = |name: &str, password: &Hidden| (name.to_owned(), password.clone());
        let mut pair = match (username, password) {
            (None | Some(""), None) => None,
            (name, Some(password)) => {
                // Hosts that know tokens take any name with them.
                let name = name.filter(|name| !name.is_empty()).unwrap_or("git");
                Some(given(name, password))
            }
            (Some(name), None) => Some(given(name, &Hidden::default())),
        };
        let Some((scheme, rest)) = url
            .split_once("://")
            .filter(|(scheme, _)| matches!(*scheme, "http" | "https"))
        else {
            // Other transports know no passwords.
            return Ok(Self {
                url: url.to_owned(),
                credentials: None,
            });
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (userinfo, host) = match authority.rsplit_once('@') {
            Some((userinfo, host)) => (Some(userinfo), host),
            None => (None, authority),
        };
        let decode = |text: &str| {
            let text = percent_encoding::percent_decode_str(text);
            text.decode_utf8_lossy().into_owned()
        };
        if let (None, Some(userinfo)) = (&pair, userinfo) {
            let (name, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
            pair = Some((decode(name), Hidden::from(decode(password).as_str())));
        }
        let origin = format!("{scheme}://{host}");
        if let Some((name, password)) = &pair {
            let is_one_line = |text: &str| !text.contains(['\n', '\r', '\0']);
            if !is_one_line(name) || !is_one_line(password.expose()) {
                return Err(ApiError::bad_request(
                    "the user name and the password have to be one line each",
                ));
            }
        }
        Ok(Self {
            url: format!("{origin}{path}"),
            credentials: pair.map(|(username, password)| Credentials {
                origin,
                username,
                password,
            }),
        })
    }
}

impl Credentials {
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let helper = format!("credential.{}.helper={HELPER}", self.origin);
        [
            "-c",
            "credential.helper=",
            "-c",
            &helper,
            "-c",
            "credential.useHttpPath=false",
        ]
        .map(OsString::from)
        .into()
    }

    pub(super) fn environment(&self) -> [(String, String); 2] {
        [
            (USERNAME.to_owned(), self.username.clone()),
            (PASSWORD.to_owned(), self.password.expose().to_owned()),
        ]
    }

    /// A message without the password.
    pub(super) fn redact(&self, text: &[u8]) -> Vec<u8> {
        let text = String::from_utf8_lossy(text);
        let password = self.password.expose();
        if password.is_empty() {
            return text.into_owned().into_bytes();
        }
        text.replace(password, "***").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(url: &str, name: Option<&str>, password: Option<&str>) -> (String, Option<String>) {
        let password = password.map(Hidden::from);
        let address = Address::new(url, name, password.as_ref()).unwrap();
        let shown = |credentials: Credentials| {
            let password = credentials.password.expose();
            format!("{} {} {password}", credentials.origin, credentials.username)
        };
        (address.url, address.credentials.map(shown))
    }

    #[test]
    fn credentials_are_for_one_origin_and_leave_the_address() {
        let plain = "https://example.com:8443/a/b.git";
        for (url, name, password, shown) in [
            (plain, None, None, None),
            (
                plain,
                Some("me"),
                Some("pw"),
                Some("https://example.com:8443 me pw"),
            ),
            (
                plain,
                None,
                Some("pw"),
                Some("https://example.com:8443 git pw"),
            ),
            (
                "https://me:p%40w@example.com:8443/a/b.git",
                None,
                None,
                Some("https://example.com:8443 me p@w"),
            ),
            (
                "https://me:pw@example.com:8443/a/b.git",
                Some("x"),
                Some("y"),
                Some("https://example.com:8443 x y"),
            ),
            (
                "https://a@b:c@example.com:8443/a/b.git",
                None,
                None,
                Some("https://example.com:8443 a@b c"),
            ),
        ] {
            let (found, credentials) = address(url, name, password);
            assert_eq!(found, plain);
            assert_eq!(credentials.as_deref(), shown, "{url}");
        }
        let (url, credentials) = address("git@example.com:a/b.git", Some("x"), Some("y"));
        assert_eq!(
            (url.as_str(), credentials),
            ("git@example.com:a/b.git", None)
        );
        let injected = Address::new(plain, Some("a\nhost=evil"), Some(&Hidden::from("x")));
        assert!(injected.is_err());
    }

    #[test]
    fn messages_do_not_tell_passwords() {
        let password = Hidden::from("s3cret");
        let address = Address::new("https://h/x", Some("me"), Some(&password)).unwrap();
        let credentials = address.credentials.unwrap();
        assert_eq!(credentials.redact(b"bad s3cret s3cret"), b"bad *** ***");
        let arguments = format!("{:?}", credentials.arguments());
        assert!(!arguments.contains("s3cret"), "{arguments}");
    }
}
