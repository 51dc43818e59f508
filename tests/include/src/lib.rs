//! Integration tests of `#[include_workflow]`. The library itself is empty.
