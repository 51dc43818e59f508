//! Conditions of a filter as SQL, and the queries that need no particular index: the number of the
//! runs of a filter, and the list of runs that changed last.

use agentflow_core::store::RunFilter;
use agentflow_core::time::Timestamp;
use rusqlite::types::Value;

use super::row;

/// Time of the last event of a run.
pub(super) const UPDATED: &str = "coalesce(runs.ended, (SELECT time FROM events WHERE id = (SELECT max(id) FROM events \
     WHERE id > runs.key << 32 AND id < (runs.key + 1) << 32)), runs.created)";

/// A query with its parameters.
#[derive(Default)]
pub(super) struct RunQuery {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

impl RunQuery {
    /// Returns the query for the number of the runs of a filter.
    pub(super) fn count(filter: &RunFilter) -> Self {
        let mut query = Self::default();
        query.sql.push_str("SELECT count(*) FROM runs WHERE TRUE");
        query.conditions(filter, "");
        if let Some(since) = filter.get_changed_since() {
            query.sql.push_str(&format!(" AND {UPDATED} >= ?"));
            query.values.push(millis(since));
        }
        query
    }

    /// Returns the query for the keys of one page of runs, in the order of their last change. A list by
    /// age has the same columns.
    ///
    /// Ended runs are read in the order of an index. Unfinished runs have no such index, because it
    /// would change with each event. They are few, so all of them are read and sorted.
    pub(super) fn last_changed(filter: &RunFilter) -> Self {
        let mut query = Self::default();
        // A session has few runs, so the index of the session is used.
        let (ended, unfinished, hidden) = match filter.get_session() {
            Some(_) => ("", "", ""),
            None => (" INDEXED BY runs_by_end", " INDEXED BY runs_without_end", "+"),
        };
        query.sql.push_str("SELECT key, updated, run_id FROM (SELECT * FROM (");
        query.page(filter, "runs.ended", ended, "runs.ended IS NOT NULL", hidden);
        query.sql.push_str(" ORDER BY runs.ended DESC, runs.run_id DESC LIMIT ?");
        query.limit(filter);
        query.sql.push_str(") UNION ALL SELECT * FROM (");
        query.page(filter, UPDATED, unfinished, "runs.ended IS NULL", hidden);
        query.sql.push_str(")) ORDER BY updated DESC, run_id DESC LIMIT ?");
        query.limit(filter);
        query
    }

    /// Adds a query for the runs of one group, with `time` as the time of their last change.
    fn page(&mut self, filter: &RunFilter, time: &str, index: &str, group: &str, hidden: &str) {
        self.sql.push_str(&format!(
            "SELECT runs.key AS key, {time} AS updated, runs.run_id AS run_id FROM runs{index} WHERE {group}"
        ));
        self.conditions(filter, hidden);
        if let Some(since) = filter.get_changed_since() {
            self.sql.push_str(&format!(" AND {time} >= ?"));
            self.values.push(millis(since));
        }
        if let Some((at, run)) = filter.get_after() {
            self.sql.push_str(&format!(" AND ({time}, runs.run_id) < (?, ?)"));
            self.values.extend([millis(at), Value::Text(run.to_string())]);
        }
    }

    fn limit(&mut self, filter: &RunFilter) {
        let limit = filter.get_limit().map_or(-1, |limit| i64::try_from(limit).unwrap_or(-1));
        self.values.push(Value::Integer(limit));
    }

    /// Adds the conditions of a filter, except its position and the time of the last change.
    /// `hidden` is `+` to hide the columns from the planner, which then uses the index that the
    /// query names.
    fn conditions(&mut self, filter: &RunFilter, hidden: &str) {
        let statuses = filter.get_statuses();
        if !statuses.is_empty() {
            let places = vec!["?"; statuses.len()].join(", ");
            self.sql.push_str(&format!(" AND {hidden}runs.status IN ({places})"));
            self.values.extend(statuses.iter().map(|status| Value::Text(status.to_string())));
        }
        for (tag, value) in filter.get_tags() {
            self.sql.push_str(
                " AND EXISTS (SELECT 1 FROM tags WHERE tags.run = runs.key AND tags.tag = ? AND tags.value = ?)",
            );
            self.values.extend([Value::Text(tag.clone()), Value::Text(value.clone())]);
        }
        let texts = [
            ("runs.name", filter.get_name(), hidden),
            ("runs.caller", filter.get_caller(), hidden),
            ("runs.session", filter.get_session(), ""),
        ];
        for (column, wanted, hidden) in texts {
            if let Some(wanted) = wanted {
                self.sql.push_str(&format!(" AND {hidden}{column} = ?"));
                self.values.push(Value::Text(wanted.to_owned()));
            }
        }
        if let Some(since) = filter.get_since() {
            self.sql.push_str(&format!(" AND {hidden}runs.created >= ?"));
            self.values.push(millis(since));
        }
        if let Some(until) = filter.get_until() {
            self.sql.push_str(&format!(" AND {hidden}runs.created < ?"));
            self.values.push(millis(until));
        }
    }
}

fn millis(time: Timestamp) -> Value {
    Value::Integer(row::number(time.as_millis()))
}
