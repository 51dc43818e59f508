//! Decides whether a failed HTTP call is retried, and after how long.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

use super::HttpSettings;
use crate::model::{ModelError, ModelErrorKind, TimeoutKind};

/// Default number of retries.
const MAX_RETRIES: u32 = 2;
/// Default number of retries while the server is unavailable: with the default waits about a minute, in which most servers
/// restart.
const MAX_RETRIES_AWAY: u32 = 11;

/// How long to wait before the next attempt; `None` when it is not retried. `made` is the number of retries so far.
pub(crate) fn wait(settings: &HttpSettings, made: u32, error: &ModelError) -> Option<Duration> {
    let default = if is_away(error) { MAX_RETRIES_AWAY } else { MAX_RETRIES };
    if made >= settings.max_retries.unwrap_or(default)
        || !error.is_retryable()
        || error.kind() == ModelErrorKind::Timeout(TimeoutKind::Total)
    {
        return None;
    }
    match error.retry_after() {
        Some(asked) => (asked <= settings.retry_after_cap).then_some(asked),
        None => Some(backoff(settings, made, fastrand::f64())),
    }
}

/// Returns true if the server has not begun to process the call: it could not be reached, or is overloaded.
fn is_away(error: &ModelError) -> bool {
    let cause = || std::error::Error::source(error)?.downcast_ref::<reqwest::Error>();
    match error.kind() {
        ModelErrorKind::Overloaded | ModelErrorKind::Timeout(TimeoutKind::Connect) => true,
        // If a connection breaks later, the server may have processed and charged the request.
        ModelErrorKind::Transport => cause().is_some_and(reqwest::Error::is_connect),
        _ => false,
    }
}

/// Doubles from the base up to the cap; `chance` in 0..1 takes off up to a quarter, so that clients do not keep step.
fn backoff(settings: &HttpSettings, made: u32, chance: f64) -> Duration {
    let doubled = settings.retry_base.saturating_mul(2_u32.saturating_pow(made));
    doubled.min(settings.retry_cap).mul_f64(1.0 - 0.25 * chance)
}

/// The wait that the provider asks for: milliseconds, seconds (also with a fraction), or a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
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
    // A figure too large for a duration is still a wait that is too long, not one to be ignored.
    Some(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

    use super::{backoff, retry_after, wait};
    use crate::model::adapter::http::HttpSettings;
    use crate::model::{ModelError, ModelErrorKind, TimeoutKind};

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
        assert_eq!(asked(&[("retry-after-ms", "30"), ("retry-after", "2")]), Some(Duration::from_millis(30)));
        assert_eq!(asked(&[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")]), Some(Duration::from_secs(10)));
        assert_eq!(asked(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), Some(Duration::ZERO));
        assert_eq!(asked(&[("retry-after", "-3")]), Some(Duration::ZERO));
        assert_eq!(asked(&[("retry-after", "1e300")]), Some(Duration::MAX));
        assert_eq!(asked(&[("retry-after", "soon")]), None);
        assert_eq!(asked(&[("retry-after", "nan")]), None);
    }

    #[test]
    fn waits_double_up_to_the_cap_and_shrink_by_at_most_a_quarter() {
        let settings = HttpSettings::default();
        assert_eq!(backoff(&settings, 0, 0.0), Duration::from_millis(500));
        assert_eq!(backoff(&settings, 1, 0.0), Duration::from_secs(1));
        assert_eq!(backoff(&settings, 1, 1.0), Duration::from_millis(750));
        assert_eq!(backoff(&settings, 1000, 0.0), Duration::from_secs(8));
    }

    #[test]
    fn only_what_can_help_is_tried_again() {
        let settings = HttpSettings::default();
        let of = |kind| ModelError::new(kind, "x");
        for kind in [ModelErrorKind::RateLimited, ModelErrorKind::Overloaded, ModelErrorKind::Transport] {
            assert!(wait(&settings, 0, &of(kind)).is_some(), "{kind:?}");
            let most = if kind == ModelErrorKind::Overloaded { 11 } else { 2 };
            assert!(wait(&settings, most - 1, &of(kind)).is_some(), "{kind:?}");
            assert_eq!(wait(&settings, most, &of(kind)), None, "{kind:?} {most} times already");
            assert_eq!(wait(&settings.clone().max_retries(1), 1, &of(kind)), None, "{kind:?}");
        }
        let minute: Duration = (0..11).map(|made| backoff(&settings, made, 0.5)).sum();
        assert!((45..75).contains(&minute.as_secs()), "{minute:?}");
        for kind in [
            ModelErrorKind::BadRequest,
            ModelErrorKind::Auth,
            ModelErrorKind::Permission,
            ModelErrorKind::NotFound,
            ModelErrorKind::Timeout(TimeoutKind::Total),
        ] {
            assert_eq!(wait(&settings, 0, &of(kind)), None, "{kind:?}");
        }
        assert_eq!(wait(&settings, 0, &of(ModelErrorKind::RateLimited).permanent()), None);
    }

    #[test]
    fn a_wait_that_is_too_long_is_left_to_the_caller() {
        let error =
            |seconds| ModelError::new(ModelErrorKind::RateLimited, "x").with_retry_after(Duration::from_secs(seconds));
        let settings = HttpSettings::default();
        assert_eq!(wait(&settings, 0, &error(120)), Some(Duration::from_secs(120)));
        assert_eq!(wait(&settings, 0, &error(121)), None);
    }
}
