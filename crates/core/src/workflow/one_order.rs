//! Checks at compile time that a collection which several nodes go through has one order. It exists only for the
//! compiler's messages; it converts nothing.
//!
//! It finds hash maps and sets by method resolution and not by name: an inherent method takes precedence over a trait's.

#![allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};

/// A part of a value that more than one node goes through.
pub struct GoneThrough<'v, T: ?Sized>(pub &'v T);

/// What has the same order whoever reads it.
#[diagnostic::on_unimplemented(
    message = "each step that reads a `HashMap` or a `HashSet` would go through it in an order of its own",
    label = "another step goes through this too, in another order",
    note = "a value is read back for each step, and after a crash, and a hash map is ordered by chance each time",
    note = "collect it into a `BTreeMap` or a `BTreeSet`, or go through it in one step and hand on a `Vec`"
)]
pub trait OneOrder {}

impl<K, V> GoneThrough<'_, HashMap<K, V, RandomState>> {
    pub fn in_one_order(&self)
    where
        HashMap<K, V, RandomState>: OneOrder,
    {
    }
}

impl<T> GoneThrough<'_, HashSet<T, RandomState>> {
    pub fn in_one_order(&self)
    where
        HashSet<T, RandomState>: OneOrder,
    {
    }
}

/// Everything else.
pub trait Ordered {
    fn in_one_order(&self) {}
}

impl<T: ?Sized> Ordered for GoneThrough<'_, T> {}
