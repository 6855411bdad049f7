//! Cookies on their way through: ours are taken out, and those of a box stay its own.

use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue};

/// What the cookies are called that open a sandbox, up to its id.
pub(super) const PREFIX: &str = "daytona-sandbox-auth-";

/// Takes our cookies out of a request.
pub(super) fn take_out(headers: &mut HeaderMap) {
    let kept: Vec<HeaderValue> = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| {
            let text = String::from_utf8_lossy(value.as_bytes());
            if !text.contains(PREFIX) {
                return Some(value.clone());
            }
            let others: Vec<&str> = text
                .split(';')
                .map(str::trim)
                .filter(|pair| !pair.starts_with(PREFIX))
                .collect();
            let others = others.join("; ");
            HeaderValue::from_str(&others)
                .ok()
                .filter(|_| !others.is_empty())
        })
        .collect();
    headers.remove(COOKIE);
    for value in kept {
        headers.append(COOKIE, value);
    }
}

/// Keeps a box from setting cookies for other previews, for the API, or in our name.
pub(super) fn confine(headers: &mut HeaderMap) {
    let confined: Vec<HeaderValue> = headers
        .get_all(SET_COOKIE)
        .iter()
        .filter_map(|value| {
            let text = value.to_str().ok()?;
            if text.trim_start().starts_with(PREFIX) {
                return None;
            }
            let kept: Vec<&str> = text
                .split(';')
                .enumerate()
                .filter(|(index, part)| {
                    let name = part.split('=').next().unwrap_or_default().trim();
                    *index == 0 || !name.eq_ignore_ascii_case("domain")
                })
                .map(|(_, part)| part)
                .collect();
            HeaderValue::from_str(&kept.join(";")).ok()
        })
        .collect();
    headers.remove(SET_COOKIE);
    for value in confined {
        headers.append(SET_COOKIE, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: axum::http::HeaderName, values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), HeaderValue::from_static(value));
        }
        headers
    }

    fn texts(headers: &HeaderMap) -> Vec<&str> {
        headers
            .values()
            .map(|value| value.to_str().unwrap())
            .collect()
    }

    #[test]
    fn tokens_do_not_reach_the_box() {
        let mut headers = headers(
            COOKIE,
            &[
                "a=1; daytona-sandbox-auth-x=secret; b=2",
                "daytona-sandbox-auth-y=z",
                "c=3",
            ],
        );
        take_out(&mut headers);
        assert_eq!(texts(&headers), ["a=1; b=2", "c=3"]);
    }

    #[test]
    fn cookies_of_a_box_stay_its_own() {
        let mut headers = headers(
            SET_COOKIE,
            &[
                "a=1; Path=/; DOMAIN=localhost; HttpOnly",
                "daytona-sandbox-auth-x=forged",
                "domain=x; Domain = .example.org",
            ],
        );
        confine(&mut headers);
        assert_eq!(texts(&headers), ["a=1; Path=/; HttpOnly", "domain=x"]);
    }
}
