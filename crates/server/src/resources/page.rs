//! `ListPage`: a page of a list, and `PageParams`: the parameters that select it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api_error::{ApiError, ApiResult};

/// Number of entries of a page, if the request has no `limit`.
const DEFAULT_LIMIT: usize = 50;
/// Maximum number of entries of a page.
const MAX_LIMIT: usize = 500;
/// Maximum number of entries that `page` may skip. A client that reads further uses `after`.
const MAX_SKIPPED: usize = 10_000;

/// A page of a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ListPage<T> {
    /// Entries of the page.
    pub(crate) items: Vec<T>,
    /// Number of the page, starting at 1.
    pub(crate) page: usize,
    /// Maximum number of entries of a page.
    pub(crate) limit: usize,
    /// Number of entries of the whole list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total: Option<usize>,
    /// Value of `after` for the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// Parameters that select a page.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct PageParams {
    /// Number of the page, starting at 1. Default: 1.
    pub(crate) page: Option<usize>,
    /// Maximum number of entries of a page, at most 500. Default: 50.
    pub(crate) limit: Option<usize>,
}

impl PageParams {
    /// Returns the limit.
    ///
    /// # Errors
    /// 400 if it is 0 or too large.
    pub(crate) fn limit(&self) -> ApiResult<usize> {
        match self.limit {
            None => Ok(DEFAULT_LIMIT),
            Some(limit) if (1..=MAX_LIMIT).contains(&limit) => Ok(limit),
            Some(limit) => Err(invalid(format!("`limit` is {limit}, expected 1 to {MAX_LIMIT}"))),
        }
    }

    /// Returns the number of the page.
    pub(crate) fn number(&self) -> usize {
        self.page.unwrap_or(1)
    }

    /// Returns the number of entries before the page.
    ///
    /// # Errors
    /// 400 if the page is 0, or too far from the beginning of the list.
    pub(crate) fn skipped(&self) -> ApiResult<usize> {
        let Some(before) = self.number().checked_sub(1) else {
            return Err(invalid("`page` is 0, expected 1 or more".to_owned()));
        };
        match before.checked_mul(self.limit()?) {
            Some(skipped) if skipped <= MAX_SKIPPED => Ok(skipped),
            _ => Err(invalid(format!(
                "`page` skips more than {MAX_SKIPPED} entries; follow `next` with `after` instead"
            ))),
        }
    }

    /// Selects the page from a whole list.
    ///
    /// # Errors
    /// As [`skipped`](Self::skipped).
    pub(crate) fn select<T>(&self, all: Vec<T>) -> ApiResult<ListPage<T>> {
        let (skipped, limit) = (self.skipped()?, self.limit()?);
        let total = Some(all.len());
        let items = all.into_iter().skip(skipped).take(limit).collect();
        Ok(ListPage { items, page: self.number(), limit, total, next: None })
    }
}

fn invalid(detail: String) -> ApiError {
    ApiError::new(http::StatusCode::BAD_REQUEST, "invalid_query", detail)
}
