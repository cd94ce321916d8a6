//! Panics of redb. The library trusts the pages of its file, so it panics on some of them after a disk has changed a byte.
//! Here, such a panic becomes an error, and nothing of it is printed.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::Once,
};

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Calls a function that uses the database. A panic becomes [`redb::Error::Corrupted`].
///
/// The database must not be used again after an error, because a panic may have left its state half changed.
pub(super) fn catch_panic<T>(using: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, redb::Error> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let printing = take_hook();
        set_hook(Box::new(move |info| {
            if !IS_CAUGHT.get() {
                printing(info);
            }
        }));
    });
    IS_CAUGHT.set(true);
    let result = catch_unwind(AssertUnwindSafe(using));
    IS_CAUGHT.set(false);
    result.unwrap_or_else(|_| Err(redb::Error::Corrupted("a page has impossible content".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let result = catch_panic(|| -> Result<(), _> { panic!("page 7") });
        assert!(matches!(result, Err(redb::Error::Corrupted(_))));
        assert!(catch_panic(|| Ok(1)).is_ok());
    }
}
