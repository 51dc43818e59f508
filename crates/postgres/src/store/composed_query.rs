//! A query whose conditions depend on a filter. Values are always parameters.

use std::fmt::Write as _;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::database::{Param, Session};
use super::text;

pub(super) struct ComposedQuery {
    sql: String,
    params: Vec<Box<dyn ToSql + Send + Sync>>,
}

impl ComposedQuery {
    /// Creates a query from its beginning, which ends with a condition.
    pub(super) fn new(sql: &str) -> Self {
        Self { sql: sql.to_owned(), params: Vec::new() }
    }

    /// Adds SQL without parameters.
    pub(super) fn push(&mut self, sql: &str) {
        self.sql.push_str(sql);
    }

    /// Adds a parameter and returns its placeholder.
    fn bind(&mut self, value: impl ToSql + Send + Sync + 'static) -> String {
        self.params.push(Box::new(value));
        format!("${}", self.params.len())
    }

    /// Adds a condition for a column of text that is indexed by its beginning.
    pub(super) fn equal_text(&mut self, column: &str, value: &str) {
        let value = self.bind(text::encode(value).into_owned());
        let _ = write!(
            self.sql,
            " AND left({column}, 200) = left({value}::text, 200) AND {column} = {value}"
        );
    }

    /// Adds a condition for a column that is indexed as a whole.
    pub(super) fn equal_key(&mut self, column: &str, value: &str) {
        let value = self.bind(text::encode(value).into_owned());
        let _ = write!(self.sql, " AND {column} = {value}");
    }

    /// Adds the condition that a column has one of these values.
    pub(super) fn one_of(&mut self, column: &str, values: Vec<&'static str>) {
        let values = self.bind(values);
        let _ = write!(self.sql, " AND {column} = ANY ({values})");
    }

    /// Adds a comparison with a number, such as `runs.created >=`.
    pub(super) fn compare(&mut self, comparison: &str, value: i64) {
        let value = self.bind(value);
        let _ = write!(self.sql, " AND {comparison} {value}");
    }

    /// Adds the condition that a run has a tag with a value.
    pub(super) fn tag(&mut self, tag: &str, value: &str) {
        let (tag, value) = (
            self.bind(text::encode(tag).into_owned()),
            self.bind(text::encode(value).into_owned()),
        );
        let _ = write!(
            self.sql,
            " AND runs.key IN (SELECT run FROM tags WHERE left(tag, 200) = left({tag}::text, 200) \
             AND left(value, 200) = left({value}::text, 200) AND tag = {tag} AND value = {value})"
        );
    }

    /// Adds the condition that a time and a text are before a position of the list.
    pub(super) fn before(&mut self, columns: &str, created: i64, text: &str) {
        let (created, text) = (self.bind(created), self.bind(text.to_owned()));
        let _ = write!(self.sql, " AND {columns} < ({created}, {text})");
    }

    /// Limits the number of rows.
    pub(super) fn limit(&mut self, rows: usize) {
        let rows = self.bind(i64::try_from(rows).unwrap_or(i64::MAX));
        let _ = write!(self.sql, " LIMIT {rows}");
    }

    /// Executes the query.
    pub(super) async fn rows(&self, session: &Session) -> Result<Vec<Row>, Error> {
        let params: Vec<Param<'_>> =
            self.params.iter().map(|param| &**param as Param<'_>).collect();
        session.composed_rows(&self.sql, &params).await
    }
}
