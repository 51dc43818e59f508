//! [`Clock`] and [`Timestamp`]: the time of a runtime, which tests replace.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, UTC.
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::time::Timestamp;
///
/// let (start, end) = (Timestamp::from_millis(1_000), Timestamp::from_millis(3_500));
/// assert_eq!(end.since(start), Duration::from_millis(2_500));
/// ```
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Creates a timestamp from milliseconds since the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this timestamp; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Source of a run's timestamps.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// The system's clock; the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

/// Serializes durations as whole milliseconds, rounded up, so that a limit is never shorter than
/// configured.
///
/// Earlier versions wrote `{"secs": 5, "nanos": 0}`, which is still accepted.
pub(crate) mod milliseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a number of milliseconds")]
    enum Written {
        Milliseconds(u64),
        Earlier(Duration),
    }

    impl Written {
        fn duration(self) -> Duration {
            match self {
                Self::Milliseconds(milliseconds) => Duration::from_millis(milliseconds),
                Self::Earlier(duration) => duration,
            }
        }
    }

    pub(crate) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let milliseconds = duration.as_nanos().div_ceil(1_000_000);
        u64::try_from(milliseconds).unwrap_or(u64::MAX).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        Written::deserialize(deserializer).map(Written::duration)
    }

    /// Optional durations.
    pub(crate) mod optional {
        use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, Written};

        #[expect(clippy::ref_option, reason = "serde calls it so")]
        pub(crate) fn serialize<S: Serializer>(
            duration: &Option<Duration>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            match duration {
                Some(duration) => super::serialize(duration, serializer),
                None => None::<u64>.serialize(serializer),
            }
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Duration>, D::Error> {
            Ok(Option::<Written>::deserialize(deserializer)?.map(Written::duration))
        }
    }
}
