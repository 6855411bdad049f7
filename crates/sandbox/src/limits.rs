//! Limits as users write them: times, sizes and shares of a processor.
//!
//! **Invariants:** nothing is rounded up, wrapped or clamped; what does not fit or could mean two things is refused
//! with the form that would be right. Arithmetic is on integers, so `1.5g` is exactly one and a half.

use std::time::Duration;

use crate::{Result, SandboxError};

const DURATION_HINT: &str = "write it as `500ms`, `90s`, `5m`, `2h` or `1h30m`";
const BYTES_HINT: &str =
    "write it as `1024`, `64k`, `512m`, `1.5g` or `2GiB`; each step is 1024 times the one before";
const CPUS_HINT: &str = "write it as `2` or `0.5`, with at most three digits after the point";

/// Reads `90s`, `5m`, `1h30m`, `500ms`: whole numbers with a unit, larger units first, each unit once.
///
/// A bare number is refused, because nobody can tell whether it means seconds or milliseconds.
///
/// # Errors
///
/// [`SandboxError::Invalid`].
pub fn parse_duration(text: &str) -> Result<Duration> {
    let invalid = || invalid("duration", text, DURATION_HINT);
    let mut rest = text;
    let mut milliseconds: u64 = 0;
    let mut previous_unit = u64::MAX;
    while !rest.is_empty() {
        let (digits, after) = split_where(rest, |byte| !byte.is_ascii_digit());
        let (unit, after) = split_where(after, |byte| byte.is_ascii_digit());
        let unit = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60 * 1000,
            "h" => 60 * 60 * 1000,
            "d" => 24 * 60 * 60 * 1000,
            _ => return Err(invalid()),
        };
        if unit >= previous_unit {
            return Err(invalid());
        }
        milliseconds = parse_digits(digits)
            .and_then(|count| count.checked_mul(unit))
            .and_then(|part| milliseconds.checked_add(part))
            .ok_or_else(invalid)?;
        previous_unit = unit;
        rest = after;
    }
    if text.is_empty() {
        return Err(invalid());
    }
    Ok(Duration::from_millis(milliseconds))
}

/// Reads `1024`, `512m`, `2GiB`, `1.5g`: a number of bytes, or of a unit of 1024 bytes and its powers.
///
/// `m`, `mb` and `mib` are the same, in capitals or not, as for the memory limits of containers.
///
/// # Errors
///
/// [`SandboxError::Invalid`], also for a part of a byte.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let invalid = || invalid("size", text, BYTES_HINT);
    let (number, unit) = split_where(text, |byte| byte.is_ascii_alphabetic());
    let unit: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err(invalid()),
    };
    Decimal::parse(number)
        .filter(|number| number.digits_after_point == 0 || unit > 1)
        .and_then(|number| number.times(unit))
        .ok_or_else(invalid)
}

/// Reads `2` or `0.5` processors, as thousandths of one.
///
/// # Errors
///
/// [`SandboxError::Invalid`], also for none at all.
pub fn parse_cpus(text: &str) -> Result<u32> {
    Decimal::parse(text)
        .filter(|number| number.digits_after_point <= 3)
        .and_then(|number| number.times(1000))
        .and_then(|millis| u32::try_from(millis).ok())
        .filter(|millis| *millis > 0)
        .ok_or_else(|| invalid("number of processors", text, CPUS_HINT))
}

/// `digits` without its point, which stands before the last `digits_after_point`.
#[derive(Debug, Clone, Copy)]
struct Decimal {
    digits: u64,
    digits_after_point: u32,
}

impl Decimal {
    /// Digits, and where there is a point, digits on both sides of it.
    fn parse(text: &str) -> Option<Self> {
        let Some((whole, fraction)) = text.split_once('.') else {
            return Some(Self {
                digits: parse_digits(text)?,
                digits_after_point: 0,
            });
        };
        let digits_after_point = u32::try_from(fraction.len()).ok()?;
        let scale = 10_u64.checked_pow(digits_after_point)?;
        let digits = parse_digits(whole)?
            .checked_mul(scale)?
            .checked_add(parse_digits(fraction)?)?;
        Some(Self {
            digits,
            digits_after_point,
        })
    }

    /// The product, with what is less than one dropped.
    fn times(self, factor: u64) -> Option<u64> {
        let scale = 10_u128.checked_pow(self.digits_after_point)?;
        u64::try_from(u128::from(self.digits) * u128::from(factor) / scale).ok()
    }
}

/// `u64::from_str` alone would take a `+`.
fn parse_digits(digits: &str) -> Option<u64> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        digits.parse().ok()
    } else {
        None
    }
}

/// Both parts of `text`, the second from the first byte on that `ends`.
fn split_where(text: &str, ends: fn(u8) -> bool) -> (&str, &str) {
    let at = text.bytes().position(ends).unwrap_or(text.len());
    text.split_at_checked(at).unwrap_or((text, ""))
}

fn invalid(what: &str, text: &str, hint: &str) -> SandboxError {
    SandboxError::Invalid {
        what: format!("invalid {what} `{text}`"),
        hint: hint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("1h0m1s5ms", 3_601_005),
            ("0s", 0),
        ] {
            assert_eq!(
                parse_duration(text).unwrap(),
                Duration::from_millis(milliseconds),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            "90",
            "s",
            "5x",
            "30m1h",
            "1s1s",
            "-5s",
            "+5s",
            "1.5h",
            "5 m",
            " 5m",
            "5M",
            "5é",
            "99999999999999999999s",
            "18446744073709551615s",
        ] {
            let error = parse_duration(text).unwrap_err();
            assert_eq!(error.to_string(), format!("invalid duration `{text}`"));
            assert_eq!(error.hint().unwrap(), DURATION_HINT);
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("1024", 1024),
            ("10b", 10),
            ("64k", 64 << 10),
            ("512m", 512 << 20),
            ("512MB", 512 << 20),
            ("2GiB", 2 << 30),
            ("1.5g", 3 << 29),
            ("0.1k", 102),
            ("1t", 1 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_bytes(text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "g",
            "1.5",
            ".5g",
            "1.g",
            "1..5g",
            "-1",
            "+1",
            "1 g",
            "1p",
            "1gg",
            "1e3",
            "1,5g",
            "é",
            "1é",
            "18446744073709551616",
            "16777216t",
            "0.00000000000000000000001g",
        ] {
            let error = parse_bytes(text).unwrap_err();
            assert_eq!(error.to_string(), format!("invalid size `{text}`"));
            assert_eq!(error.hint().unwrap(), BYTES_HINT);
        }
    }

    #[test]
    fn processors() {
        for (text, millis) in [
            ("0.5", 500),
            ("2", 2000),
            ("1.25", 1250),
            ("0.001", 1),
            ("64.0", 64_000),
        ] {
            assert_eq!(parse_cpus(text).unwrap(), millis, "{text}");
        }
    }

    #[test]
    fn what_is_no_number_of_processors_is_refused() {
        for text in [
            "", "0", "0.0", "0.0001", ".5", "2.", "-1", "+1", "1e3", "two", "½", "4294968",
        ] {
            let error = parse_cpus(text).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("invalid number of processors `{text}`")
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,24}", numeric in "[0-9.]{0,24}[a-zA-Z]{0,4}") {
            for text in [text, numeric] {
                let _results = (parse_duration(&text), parse_bytes(&text), parse_cpus(&text));
            }
        }

        #[test]
        fn whole_units_are_exact(count in 0_u64..1 << 20) {
            prop_assert_eq!(parse_bytes(&format!("{count}m")).unwrap(), count << 20);
            prop_assert_eq!(parse_duration(&format!("{count}s")).unwrap(), Duration::from_secs(count));
        }
    }
}
