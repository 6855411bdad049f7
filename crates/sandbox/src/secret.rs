//! A value that must not be seen.
//!
//! **Invariants:** a [`Secret`] has no `Display` and no `Serialize`, its `Debug` is a constant, and its bytes are
//! overwritten when it is dropped. The one way to the text is [`Secret::expose`], which is easy to search for.

use std::fmt;

use zeroize::Zeroizing;

/// A token, password or key.
///
/// There is no `PartialEq` on purpose: comparing secrets byte by byte tells an attacker how many were right.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the text over. Copies that the caller still holds are the caller's to wipe.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text. Hand it on to the one place that needs it, and store it nowhere.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is any text at all; an unset variable often arrives as an empty one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret([hidden])")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_does_not_show_the_text() {
        let secret = Secret::new("hunter2hunter2");
        assert_eq!(format!("{secret:?}"), "Secret([hidden])");
        assert_eq!(
            format!("{:#?}", Some(&secret)),
            "Some(\n    Secret([hidden]),\n)"
        );
        assert_eq!(secret.expose(), "hunter2hunter2");
    }

    #[test]
    fn an_empty_secret_says_so() {
        assert!(Secret::from("").is_empty());
        assert!(!Secret::from(String::from("x")).is_empty());
    }
}
