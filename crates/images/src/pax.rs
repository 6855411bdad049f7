//! Records of pax headers: `<length> <key>=<value>\n`, where a value may hold any byte.
//!
//! The `tar` crate splits them at line ends, which cuts `security.capability` values in two; and it reads
//! headers of any length. Hence our own.

use crate::error::{ImagesError, Result};

/// Splits a header into its records.
pub(crate) fn records(mut header: &[u8]) -> Result<Vec<(&str, &[u8])>> {
    let mut records = Vec::new();
    // Some writers fill the header up with NUL bytes.
    while header.first().is_some_and(|byte| *byte != 0) {
        let (record, rest) = split_record(header)
            .ok_or_else(|| ImagesError::broken("a pax header has a malformed record"))?;
        records.push(record);
        header = rest;
    }
    Ok(records)
}

type Record<'a> = (&'a str, &'a [u8]);

fn split_record(header: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let space = header.iter().take(12).position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(header.get(..space)?)
        .ok()?
        .parse()
        .ok()?;
    let (record, rest) = header.split_at_checked(length)?;
    let body = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = body.iter().position(|byte| *byte == b'=')?;
    let key = std::str::from_utf8(body.get(..equals)?).ok()?;
    Some(((key, body.get(equals + 1..)?), rest))
}

/// A decimal number, as `size`, `uid` and `gid` are.
pub(crate) fn number(key: &str, value: &[u8]) -> Result<u64> {
    std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| ImagesError::broken(format!("pax record `{key}` is not a number")))
}

/// Seconds, perhaps negative, perhaps with a fraction: (seconds, nanoseconds).
pub(crate) fn time(key: &str, value: &[u8]) -> Result<(i64, u32)> {
    let parse = || {
        let text = std::str::from_utf8(value).ok()?;
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let seconds: i64 = whole.parse().ok()?;
        if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits: String = fraction
            .chars()
            .chain("000000000".chars())
            .take(9)
            .collect();
        let nanoseconds: u32 = digits.parse().ok()?;
        if whole.starts_with('-') && nanoseconds > 0 {
            return Some((seconds.checked_sub(1)?, 1_000_000_000 - nanoseconds));
        }
        Some((seconds, nanoseconds))
    };
    parse().ok_or_else(|| ImagesError::broken(format!("pax record `{key}` is not a time")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_hold_line_ends() {
        let header = b"17 path=usr/bin\n\n19 linkpath=a\nb=c\n\n";
        assert_eq!(
            records(header).unwrap(),
            [
                ("path", b"usr/bin\n".as_slice()),
                ("linkpath", b"a\nb=c\n".as_slice())
            ]
        );
        assert_eq!(records(b"").unwrap(), []);
        assert_eq!(records(b"6 a=b\n\0\0\0").unwrap(), [("a", b"b".as_slice())]);
    }

    #[test]
    fn malformed_records_are_errors() {
        for hostile in [
            b"x path=a\n".as_slice(),
            b"99 path=a\n",
            b"0 =\n",
            b"1 ",
            b"-9 path=a\n",
            b"8 patha\n",
            b"9 path=a",
            b"18446744073709551615 a=b\n",
            b"9 \xff\xffth=a\n",
        ] {
            assert!(records(hostile).is_err(), "{hostile:?}");
        }
    }

    #[test]
    fn times_have_fractions_and_signs() {
        assert_eq!(time("mtime", b"12").unwrap(), (12, 0));
        assert_eq!(time("mtime", b"12.5").unwrap(), (12, 500_000_000));
        assert_eq!(time("mtime", b"12.1234567899").unwrap(), (12, 123_456_789));
        assert_eq!(time("mtime", b"-1.25").unwrap(), (-2, 750_000_000));
        for hostile in [
            b"".as_slice(),
            b"x",
            b"1.x",
            b"1e9",
            b"--1",
            b"99999999999999999999",
        ] {
            assert!(time("mtime", hostile).is_err(), "{hostile:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(header: Vec<u8>) {
            let _found = records(&header);
            let _found = time("mtime", &header);
            let _found = number("size", &header);
        }
    }
}
