//! Checks at compile time that the output of a node owns its data. It serves compiler messages
//! only.
//!
//! `&str` implements all traits of a value for some lifetime, so the compiler would report
//! lifetimes in generated code. Method resolution finds borrows instead: an inherent method takes
//! precedence over a method of a trait.

#![allow(missing_docs, missing_debug_implementations, reason = "named by expansions only")]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::path::Path;

use super::node_handle::Handle;

/// The output of a node, checked when the whole body is typed.
pub struct Output<'h, H>(pub &'h H);

/// Bound for outputs that own their data. Its message reports a borrow, because no borrow
/// implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is borrowed, and what a workflow binds is recorded, so it owns its data",
    label = "record a copy with `.to_owned()`, or borrow where it is read",
    note = "within an `Option`, write `.map(str::to_owned)`; of a tuple, a list, a set or a map, copy each part",
    note = "a function of your own returns `String` for `&str`"
)]
pub trait OwnedOutput {}

/// Types that serde can deserialize as a borrow. For any other reference, serde's missing
/// implementation is reported.
pub trait ReadAsBorrow {}

impl ReadAsBorrow for str {}
impl ReadAsBorrow for [u8] {}
impl ReadAsBorrow for Path {}

/// A borrow, or a collection of borrows.
pub trait Borrowing {
    type Itself;
}

impl<T: ReadAsBorrow + ?Sized> Borrowing for &T {
    type Itself = Self;
}

/// Implements the trait for collections of borrows.
macro_rules! borrowing_collections {
    ($($collection:ty where $($param:ident),*;)*) => {
        $(impl<T: Borrowing $(, $param)*> Borrowing for $collection {
            type Itself = Self;
        })*
    };
}

borrowing_collections! {
    Option<T> where;
    Vec<T> where;
    VecDeque<T> where;
    BTreeSet<T> where;
    HashSet<T, S> where S;
    BTreeMap<T, V> where V;
    HashMap<T, V, S> where V, S;
    BTreeMap<String, T> where;
    HashMap<String, T, S> where S;
    (T, U) where U;
}

impl<T: Borrowing, const N: usize> Borrowing for [T; N] {
    type Itself = Self;
}

// A single `impl` leaves the compiler no choice to report if a mistake makes the type unknown.
impl<O: Borrowing> Output<'_, Handle<O>> {
    pub fn owned(&self)
    where
        O::Itself: OwnedOutput,
    {
    }
}

/// Implements the method for all other outputs.
pub trait OtherOutput {
    fn owned(&self) {}
}

impl<H> OtherOutput for Output<'_, H> {}
