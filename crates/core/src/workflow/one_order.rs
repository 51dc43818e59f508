//! Checks at compile time that a collection that several nodes iterate over has a fixed order. It
//! serves compiler messages only.
//!
//! Method resolution finds hash maps and sets, also under a different name: an inherent method
//! takes precedence over a method of a trait.

#![allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};

/// A part of a value that more than one node iterates over.
pub struct GoneThrough<'v, T: ?Sized>(pub &'v T);

/// Collections with the same order for every reader.
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

/// Implements the method for all other types.
pub trait Ordered {
    fn in_one_order(&self) {}
}

impl<T: ?Sized> Ordered for GoneThrough<'_, T> {}
