//! Texts that must not be confused with each other.

use std::{borrow::Borrow, convert::Infallible, fmt, ops::Deref, str::FromStr, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

macro_rules! text {
    ($($(#[$doc:meta])* $text:ident: $field:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $text<S = Arc<str>>(pub S);

        impl<S: Deref<Target = str>> $text<S> {
            /// Borrows the text.
            pub fn as_deref(&self) -> $text<&str> {
                $text(&self.0)
            }
        }

        impl<'a> $text<&'a str> {
            /// Reads it from metadata. It is empty if the metadata does not have it.
            pub fn of(metadata: &'a ObjectMeta) -> Self {
                Self(metadata.$field.as_deref().unwrap_or_default())
            }

            /// The text, for as long as it is borrowed.
            pub const fn as_str(self) -> &'a str {
                self.0
            }

            /// Copies the text into memory that clones share.
            pub fn to_shared(self) -> $text {
                $text(self.0.into())
            }
        }

        impl<S: Deref<Target = str>> Deref for $text<S> {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        /// Maps with such keys are searched with a `&str`.
        impl<S: Borrow<str>> Borrow<str> for $text<S> {
            fn borrow(&self) -> &str {
                self.0.borrow()
            }
        }

        /// Takes any text, for arguments of a command line.
        impl FromStr for $text {
            type Err = Infallible;

            fn from_str(text: &str) -> Result<Self, Infallible> {
                Ok(Self(text.into()))
            }
        }

        impl<S: Deref<Target = str>> From<$text<S>> for String {
            fn from(text: $text<S>) -> Self {
                Self::from(&*text)
            }
        }

        impl<S: fmt::Display> fmt::Display for $text<S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

text! {
    /// The namespace of an object. It is empty for cluster-scoped objects.
    Namespace: namespace;
    /// The name of an object.
    Name: name;
    /// The uid of an object. Objects that have the same name one after the other have different uids.
    Uid: uid;
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;

    #[test]
    fn maps_are_searched_with_plain_text() {
        let names = ["a", "b"].map(|name| Name(name).to_shared());
        let sorted: BTreeMap<Name, usize> = names.iter().cloned().zip(0..).collect();
        let hashed: HashMap<Name, usize> = names.into_iter().zip(0..).collect();
        assert_eq!((sorted.get("b"), hashed.get("b")), (Some(&1), Some(&1)));
        assert_eq!((sorted.get("c"), hashed.get("c")), (None, None));
    }

    #[test]
    fn clones_share_their_text() {
        let namespace = Namespace("ns").to_shared();
        assert!(std::ptr::eq(namespace.as_deref().as_str(), namespace.clone().as_deref().as_str()));
    }
}
