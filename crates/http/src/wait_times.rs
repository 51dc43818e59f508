//! Parses `Retry-After`, the wait time that a server requests.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

/// Returns the wait time that a server requests: milliseconds (`retry-after-ms`), seconds (also
/// with a fraction), or a date (`retry-after`). Returns `None` if no header is present or valid.
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name| text(name)?.parse::<f64>().ok();
    let seconds = match (number("retry-after-ms"), number("retry-after")) {
        (Some(millis), _) => millis / 1000.0,
        (None, Some(seconds)) => seconds,
        (None, None) => {
            let date = httpdate::parse_http_date(text("retry-after")?).ok()?;
            return Some(date.duration_since(now).unwrap_or_default());
        }
    };
    if seconds.is_nan() {
        return None;
    }
    // A number that is too large for a `Duration` is still a wait, and must not be ignored.
    Some(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

    use super::retry_after;

    fn asked(headers: &[(&'static str, &'static str)]) -> Option<Duration> {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        // Sun, 06 Nov 1994 08:49:37 GMT
        retry_after(&headers, UNIX_EPOCH + Duration::from_secs(784_111_777))
    }

    #[test]
    fn a_wait_is_read_from_milliseconds_seconds_and_dates() {
        assert_eq!(asked(&[]), None);
        assert_eq!(asked(&[("retry-after", "2")]), Some(Duration::from_secs(2)));
        assert_eq!(asked(&[("retry-after", " 0.5 ")]), Some(Duration::from_millis(500)));
        assert_eq!(
            asked(&[("retry-after-ms", "30"), ("retry-after", "2")]),
            Some(Duration::from_millis(30))
        );
        assert_eq!(
            asked(&[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")]),
            Some(Duration::from_secs(10))
        );
        assert_eq!(
            asked(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]),
            Some(Duration::ZERO)
        );
        assert_eq!(asked(&[("retry-after", "-3")]), Some(Duration::ZERO));
        assert_eq!(asked(&[("retry-after", "1e300")]), Some(Duration::MAX));
        assert_eq!(asked(&[("retry-after", "soon")]), None);
        assert_eq!(asked(&[("retry-after", "nan")]), None);
    }
}
