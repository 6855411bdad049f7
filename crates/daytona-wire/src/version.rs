//! What a server does differently for older clients, decided from what a client says about itself.

/// The header with the version of the SDK. As a WebSocket subprotocol the value follows after `~`.
pub const SDK_VERSION_HEADER: &str = "X-Daytona-SDK-Version";
/// The header by which a client without version asks for the two outputs apart.
pub const SPLIT_OUTPUT_HEADER: &str = "X-Daytona-Split-Output";

/// The version of an SDK, as far as the protocol depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SdkVersion {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl SdkVersion {
    /// The two outputs are told apart from here on.
    const SPLIT_OUTPUT: Self = Self::new(0, 27, 0);
    /// Sessions start in the working folder from here on.
    const SESSION_IN_WORK_DIR: Self = Self::new(0, 103, 0);
    /// Logs are JSON from here on.
    const JSON_LOGS: Self = Self::new(0, 167, 0);

    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// Whether a client of this version asks for a sandbox again right after it has deleted it.
    pub fn looks_at_what_it_deleted(self) -> bool {
        self < Self::new(0, 112, 0)
    }

    /// Reads `0.226.1`, also with a leading `v`, with a part left out, or with what semver allows behind (`-rc.1`,
    /// `+build`). Anything else is no version.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let numbers = text.split(['-', '+']).next()?;
        let mut parts = numbers.split('.');
        let major = number(parts.next()?)?;
        let minor = parts.next().map_or(Some(0), number)?;
        let patch = parts.next().map_or(Some(0), number)?;
        parts
            .next()
            .is_none()
            .then_some(Self::new(major, minor, patch))
    }
}

fn number(text: &str) -> Option<u32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

/// How a client wants the output of a session's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStyle {
    /// One text without markers; `exec` has no `stdout` and `stderr`, the logs are text/plain.
    Combined,
    /// One text with markers; `exec` has no `stdout` and `stderr`, the logs are text/plain.
    MarkedText,
    /// Markers in `output`, and `stdout` and `stderr` besides; the logs are JSON.
    Json,
}

impl OutputStyle {
    /// `version` and `split` are the values of [`SDK_VERSION_HEADER`] and [`SPLIT_OUTPUT_HEADER`]. A version that cannot
    /// be read counts as none.
    pub fn for_client(version: Option<&str>, split: Option<&str>) -> Self {
        match version.and_then(SdkVersion::parse) {
            Some(version) if version >= SdkVersion::JSON_LOGS => Self::Json,
            Some(version) if version >= SdkVersion::SPLIT_OUTPUT => Self::MarkedText,
            Some(_) => Self::Combined,
            None if split.is_some_and(|split| split.trim().eq_ignore_ascii_case("true")) => {
                Self::MarkedText
            }
            None => Self::Combined,
        }
    }
}

/// Where a new session starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStart {
    Home,
    WorkDir,
}

impl SessionStart {
    /// `version` is the value of [`SDK_VERSION_HEADER`]. A client without one gets today's answer.
    pub fn for_client(version: Option<&str>) -> Self {
        match version.and_then(SdkVersion::parse) {
            Some(version) if version < SdkVersion::SESSION_IN_WORK_DIR => Self::Home,
            Some(_) | None => Self::WorkDir,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions_are_read() {
        let version = |text| SdkVersion::parse(text);
        assert_eq!(version("0.226.1"), Some(SdkVersion::new(0, 226, 1)));
        assert_eq!(version(" v0.27.0-rc.1+b "), Some(SdkVersion::new(0, 27, 0)));
        assert_eq!(version("1.2"), Some(SdkVersion::new(1, 2, 0)));
        for text in [
            "",
            "v",
            "dev",
            "0.x.1",
            "1.2.3.4",
            "-1.0.0",
            "+1.0.0",
            "0.99999999999.0",
        ] {
            assert_eq!(version(text), None, "{text}");
        }
    }

    #[test]
    fn output_depends_on_version_and_wish() {
        for (version, split, expected) in [
            (Some("0.226.1"), None, OutputStyle::Json),
            (Some("0.167.0"), None, OutputStyle::Json),
            (Some("0.166.9"), None, OutputStyle::MarkedText),
            (Some("0.27.0"), None, OutputStyle::MarkedText),
            (Some("0.26.9"), Some("true"), OutputStyle::Combined),
            (Some("1.0.0"), None, OutputStyle::Json),
            (None, None, OutputStyle::Combined),
            (None, Some("true"), OutputStyle::MarkedText),
            (None, Some("false"), OutputStyle::Combined),
            (Some("nonsense"), None, OutputStyle::Combined),
        ] {
            assert_eq!(
                OutputStyle::for_client(version, split),
                expected,
                "{version:?} {split:?}"
            );
        }
    }

    #[test]
    fn old_clients_start_at_home() {
        assert_eq!(
            SessionStart::for_client(Some("0.102.9")),
            SessionStart::Home
        );
        assert_eq!(
            SessionStart::for_client(Some("0.103.0")),
            SessionStart::WorkDir
        );
        assert_eq!(SessionStart::for_client(None), SessionStart::WorkDir);
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in ".*") {
            let _ = SdkVersion::parse(&text);
        }
    }
}
