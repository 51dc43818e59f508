//! Detects parameter types that a model should not fill in: types with interior mutability, such as
//! `Mutex`.
//!
//! Serde and schemars see through these types. The model would be asked for the contents, and each
//! call would get a new value. The detection uses method resolution and not names: an inherent
//! associated constant takes precedence over a trait's constant.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicU8, AtomicU16,
    AtomicU32, AtomicU64, AtomicUsize,
};
use std::sync::{Arc, Mutex, RwLock};

/// Queries how a parameter of a type gets its value: `Probe::<T>::FILLED`.
pub struct Probe<T: ?Sized>(PhantomData<T>);

/// The model fills in the value, or the program provides it with [`Inject`](crate::Inject).
#[derive(Clone, Copy)]
pub struct Value;

/// The type is shared state, which is not allowed as a parameter.
pub struct SharedState<T: ?Sized>(PhantomData<T>);

pub trait Probed {
    const FILLED: Value = Value;
}

impl<T: ?Sized> Probed for Probe<T> {}

macro_rules! shared {
    ($([$($T:ident)?] $Type:ty)*) => {
        $(
            impl$(<$T: ?Sized>)? Probe<$Type> {
                pub const FILLED: SharedState<$Type> = SharedState(PhantomData);
            }

            impl$(<$T: ?Sized>)? Probe<Arc<$Type>> {
                pub const FILLED: SharedState<Arc<$Type>> = SharedState(PhantomData);
            }
        )*
    };
}

shared! {
    [T] Mutex<T> [T] RwLock<T> [T] RefCell<T> [T] Cell<T>
    [] AtomicBool [] AtomicI8 [] AtomicI16 [] AtomicI32 [] AtomicI64 [] AtomicIsize
    [] AtomicU8 [] AtomicU16 [] AtomicU32 [] AtomicU64 [] AtomicUsize
}

/// Trait bound on the result of a [`Probe`]. Its diagnostic explains the mistake.
#[diagnostic::on_unimplemented(
    message = "a tool's parameter cannot be state that is shared",
    label = "the model would be asked for what is inside, and each call would get one of its own",
    note = "for what the program shares with its tools, take `Inject<..>` of it, as in `Inject<Mutex<T>>`, and give the \
            agent or its runtime a `.resource(..)`",
    note = "for an argument of the call, take what is inside by value"
)]
pub trait Filled: Copy {}

#[diagnostic::do_not_recommend]
impl Filled for Value {}
