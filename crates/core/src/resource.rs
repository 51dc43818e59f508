//! Resources: values that a program provides to its tools by type, such as clients, pools and
//! configuration.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use agentflow_schema::text::nearest;

/// A tool parameter that the program provides; the model never sees it.
///
/// The nearest resource is used: the run request is searched first, then the agent, the run and the
/// runtime. A missing resource is an error when the agent is built or when the run starts.
///
/// - A trait object, `Inject<dyn Db>`, is provided as an `Arc<dyn Db>`.
/// - A value that several tools change is wrapped in a `Mutex`: `Inject<Mutex<T>>`.
/// - A reference to a static has a different type than its target: `Inject<&'static Prices>` takes
///   the resource `.resource(&PRICES)`, and `Inject<Prices>` does not.
/// - A workflow step passes a resource with [`Context::inject`](crate::Context::inject):
///   `order_state(cx.inject()?, 7)`. If the argument is omitted, the compiler reports E0061,
///   "argument #1 of type `Inject<..>` is missing", without this solution.
///
/// ```
/// use agentflow::prelude::*;
///
/// struct Orders(Vec<&'static str>);
///
/// /// The state of an order.
/// #[tool]
/// fn order_state(orders: Inject<Orders>, number: usize) -> Option<String> {
///     orders.0.get(number).map(|state| (*state).to_owned())
/// }
///
/// // In a test the function is called like any other.
/// assert_eq!(order_state(Inject::new(Orders(vec!["sent"])), 0).as_deref(), Some("sent"));
/// ```
pub struct Inject<T: ?Sized> {
    /// `None` if only replaced tools take the resource, in a test.
    resource: Option<Arc<T>>,
}

impl<T> Inject<T> {
    /// Wraps a value, to call a tool's function directly.
    pub fn new(value: T) -> Self {
        Self { resource: Some(Arc::new(value)) }
    }
}

impl<T: ?Sized> Inject<T> {
    /// Returns the shared resource, to keep it after the call.
    ///
    /// # Panics
    /// In a test that did not provide the resource because it replaces the tools that take it.
    pub fn into_shared(self) -> Arc<T> {
        match self.resource {
            Some(resource) => resource,
            None => absent::<T>(),
        }
    }

    /// Creates a placeholder for a missing resource that only replaced tools take.
    pub(crate) fn absent() -> Self {
        Self { resource: None }
    }
}

/// Panics if code other than the replaced tools uses a missing resource.
#[cold]
fn absent<T: ?Sized>() -> ! {
    panic!(
        "there is no resource of type `{}`: it was left out since a tool that takes it is replaced, and other code uses it; \
         give the runtime one with `.resource(value)`",
        type_name::<T>()
    )
}

/// Returns true if a resource may be missing, since only replaced tools take it. Part of the host
/// of a test.
pub(crate) struct UnusedResources(pub(crate) Box<dyn Fn(ResourceKey) -> bool + Send + Sync>);

impl<T: ?Sized> From<Arc<T>> for Inject<T> {
    fn from(resource: Arc<T>) -> Self {
        Self { resource: Some(resource) }
    }
}

impl<T: ?Sized> Deref for Inject<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.resource {
            Some(resource) => resource,
            None => absent::<T>(),
        }
    }
}

impl<T: ?Sized> Clone for Inject<T> {
    fn clone(&self) -> Self {
        Self { resource: self.resource.clone() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Inject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.resource {
            Some(resource) => f.debug_tuple("Inject").field(&&**resource).finish(),
            None => f.write_str("Inject(absent)"),
        }
    }
}

/// The type of a resource, with its name for error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResourceKey {
    id: TypeId,
    /// Type id of an `Arc` of the type.
    shared: TypeId,
    name: &'static str,
}

impl ResourceKey {
    /// Returns the key of a type.
    pub fn of<T: ?Sized + 'static>() -> Self {
        Self { id: TypeId::of::<T>(), shared: TypeId::of::<Arc<T>>(), name: type_name::<T>() }
    }

    /// The type's name, as the compiler formats it.
    pub fn type_name(&self) -> &'static str {
        self.name
    }
}

/// Values by type. Cloning increments one reference count.
#[derive(Clone, Default)]
pub struct Resources(Arc<HashMap<TypeId, HeldResource>>);

#[derive(Clone)]
struct HeldResource {
    name: &'static str,
    value: Arc<dyn Any + Send + Sync>,
}

impl Resources {
    /// Adds a value. Replaces the previous value of the same type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.insert_shared(Arc::new(value));
    }

    /// Adds a shared value, which can be a trait object: `insert_shared::<dyn Db>(db)`.
    pub fn insert_shared<T: ?Sized + Send + Sync + 'static>(&mut self, value: Arc<T>) {
        let entry = HeldResource { name: type_name::<T>(), value: Arc::new(value) };
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), entry);
    }

    /// Returns the value of a type, or the target of a resource `Arc<T>`: a resource `Arc<dyn Db>`
    /// is found as `dyn Db` too.
    pub fn get<T: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let value = |id| self.0.get(&id).map(|entry| &entry.value);
        match value(TypeId::of::<T>()) {
            Some(own) => own.downcast_ref::<Arc<T>>().cloned(),
            // Each value is stored in an `Arc`, so a resource that is an `Arc` is an `Arc<Arc<T>>`
            // here.
            None => value(TypeId::of::<Arc<T>>())?
                .downcast_ref::<Arc<Arc<T>>>()
                .map(|shared| Arc::clone(&**shared)),
        }
    }

    /// Returns `true` if [`get`](Self::get) finds a value of this type.
    pub fn contains(&self, key: ResourceKey) -> bool {
        self.0.contains_key(&key.id) || self.0.contains_key(&key.shared)
    }

    /// Describes a missing type for an error message: its name and the most similar existing type.
    pub(crate) fn missing(&self, key: ResourceKey) -> String {
        let name = key.name;
        let given = self.0.values().map(|entry| entry.name);
        // The same type in another wrapper is the most likely mistake, then a similar name.
        let same = given.clone().filter(|given| bare(given) == bare(name)).min();
        let near = || {
            let near = nearest(bare(name), given.clone().map(bare))?;
            given.filter(|given| bare(given) == near).min()
        };
        match same.or_else(near) {
            Some(near) => format!("`{name}` (there is a `{near}`)"),
            None => format!("`{name}`"),
        }
    }

    /// The names of the types, sorted.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.0.values().map(|entry| entry.name).collect();
        names.sort_unstable();
        names
    }

    /// The names of the types in backticks, sorted and separated by commas, for messages.
    pub(crate) fn quoted_names(&self) -> String {
        let quoted: Vec<String> = self.names().iter().map(|name| format!("`{name}`")).collect();
        quoted.join(", ")
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an empty set if this is the same set as `other`, otherwise a clone.
    pub(crate) fn beside(&self, other: &Self) -> Self {
        if Arc::ptr_eq(&self.0, &other.0) { Self::default() } else { self.clone() }
    }

    /// Adds all values of `other`, which replace values of the same type.
    pub fn extend(&mut self, other: &Self) {
        if !other.0.is_empty() {
            Arc::make_mut(&mut self.0)
                .extend(other.0.iter().map(|(id, entry)| (*id, entry.clone())));
        }
    }
}

/// Returns the name of a type without its path and without wrappers such as `Arc` and `Mutex`. For
/// messages only.
fn bare(name: &str) -> &str {
    const AROUND: [&str; 11] = [
        "Arc", "Rc", "Box", "Option", "Mutex", "RwLock", "RefCell", "Cell", "OnceLock", "OnceCell",
        "Inject",
    ];
    let name = name.trim_start_matches('&').trim_start_matches("dyn ");
    let head = name.find('<').map_or(name, |at| &name[..at]);
    let last = head.rsplit("::").next().unwrap_or(head);
    match name.find('<') {
        Some(at) if AROUND.contains(&last) && name.ends_with('>') => {
            bare(&name[at + 1..name.len() - 1])
        }
        _ => last,
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resources").field(&self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::{ResourceKey, Resources, bare};

    trait Db: Send + Sync {
        fn name(&self) -> &'static str;
    }

    struct Postgres;

    impl Db for Postgres {
        fn name(&self) -> &'static str {
            "postgres"
        }
    }

    #[test]
    fn what_an_arc_shares_is_there_too() {
        let mut resources = Resources::default();
        let db: Arc<dyn Db> = Arc::new(Postgres);
        resources.insert(Arc::clone(&db));
        resources.insert(Arc::new(Mutex::new(1_u8)));
        assert_eq!(resources.get::<dyn Db>().unwrap().name(), "postgres");
        assert_eq!(resources.get::<Arc<dyn Db>>().unwrap().name(), "postgres");
        *resources.get::<Mutex<u8>>().unwrap().lock().unwrap() += 1;
        assert_eq!(*resources.get::<Arc<Mutex<u8>>>().unwrap().lock().unwrap(), 2);
        assert!(
            resources.contains(ResourceKey::of::<dyn Db>())
                && resources.contains(ResourceKey::of::<Mutex<u8>>())
        );
        assert!(
            resources.get::<Postgres>().is_none() && !resources.contains(ResourceKey::of::<u8>())
        );
        // A resource of exactly this type has precedence.
        resources.insert(Mutex::new(7_u8));
        assert_eq!(*resources.get::<Mutex<u8>>().unwrap().lock().unwrap(), 7);
    }

    #[test]
    fn what_is_missing_is_named_with_what_is_nearest() {
        let here = module_path!();
        let mut resources = Resources::default();
        let missing = |resources: &Resources| {
            (
                resources.missing(ResourceKey::of::<Postgres>()),
                resources.missing(ResourceKey::of::<dyn Db>()),
            )
        };
        resources.insert(1_u8);
        assert_eq!(
            missing(&resources),
            (format!("`{here}::Postgres`"), format!("`dyn {here}::Db`"))
        );
        resources.insert(Mutex::new(Some(Postgres)));
        let (postgres, _) = missing(&resources);
        assert!(postgres.starts_with(&format!("`{here}::Postgres` (there is a `")), "{postgres}");
        assert!(postgres.contains("Mutex<core::option::Option<"), "{postgres}");
        let boxed: Box<dyn Db> = Box::new(Postgres);
        resources.insert(boxed);
        let (_, db) = missing(&resources);
        assert_eq!(
            db,
            format!("`dyn {here}::Db` (there is a `alloc::boxed::Box<dyn {here}::Db>`)")
        );
    }

    #[test]
    fn the_bare_name_of_a_type() {
        for (name, expected) in [
            ("u8", "u8"),
            ("a::b::Client", "Client"),
            ("dyn a::Db", "Db"),
            ("alloc::sync::Arc<std::sync::poison::mutex::Mutex<a::Client>>", "Client"),
            ("a::Pool<b::Db>", "Pool"),
            ("&a::Client", "Client"),
        ] {
            assert_eq!(bare(name), expected, "{name}");
        }
    }
}
