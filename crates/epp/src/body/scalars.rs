//! Single values of request bodies, read leniently: a value of an unexpected type counts as absent.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// Generates the visitor methods for numbers that are no tokens, for null, and for further types. They return `$skipped`.
macro_rules! skip {
    ($skipped:expr; $($method:ident: $kind:ty),*) => {
        skip!(@scalars $skipped; visit_i64: i64, visit_f64: f64 $(, $method: $kind)*);

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($skipped)
        }
    };
    (@scalars $skipped:expr; $($method:ident: $kind:ty),*) => {
        $(fn $method<E>(self, _: $kind) -> Result<Self::Value, E> { Ok($skipped) })*
    };
}
pub(super) use skip;

/// A value that is not a list or an object.
#[derive(Debug)]
pub(super) enum Scalar<'a> {
    Text(Cow<'a, str>),
    Flag(bool),
    Token(u32),
    Other,
}

impl<'a> Scalar<'a> {
    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn number(self) -> Option<u32> {
        if let Self::Token(number) = self { Some(number) } else { None }
    }
}

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Scalar<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Scalar::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Scalar::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
                Ok(Scalar::Flag(flag))
            }

            fn visit_u64<E>(self, token: u64) -> Result<Self::Value, E> {
                Ok(u32::try_from(token).map_or(Scalar::Other, Scalar::Token))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                IgnoredAny.visit_seq(seq).map(|_| Scalar::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                IgnoredAny.visit_map(map).map(|_| Scalar::Other)
            }

            skip!(Scalar::Other;);
        }
        deserializer.deserialize_any(Any)
    }
}
