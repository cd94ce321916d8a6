//! Single values of request bodies, read leniently: a value of an unexpected type counts as absent.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// Generates visitor methods that accept values of an unexpected type and return `$skipped`.
macro_rules! skip_scalars {
    ($skipped:expr; $($method:ident: $kind:ty),*) => {
        $(fn $method<E>(self, _: $kind) -> Result<Self::Value, E> { Ok($skipped) })*
    };
}
pub(super) use skip_scalars;

macro_rules! skip_seq {
    ($skipped:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok($skipped)
        }
    };
}

macro_rules! skip_map {
    ($skipped:expr) => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($skipped)
        }
    };
}
pub(super) use skip_map;

macro_rules! skip_null {
    ($skipped:expr) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($skipped)
        }
    };
}
pub(super) use skip_null;

/// A string. `None` for any other value.
#[derive(Debug, Default)]
pub(super) struct Text<'a>(pub(super) Option<Cow<'a, str>>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Some(Cow::Borrowed(text))))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Some(Cow::Owned(text.to_owned()))))
            }

            skip_scalars!(Text(None); visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64);
            skip_null!(Text(None));
            skip_seq!(Text(None));
            skip_map!(Text(None));
        }
        deserializer.deserialize_any(Any)
    }
}

/// Whether the value is `true`.
pub(super) struct Flag(pub(super) bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Flag;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
                Ok(Flag(flag))
            }

            skip_scalars!(Flag(false); visit_str: &str, visit_i64: i64, visit_u64: u64, visit_f64: f64);
            skip_null!(Flag(false));
            skip_seq!(Flag(false));
            skip_map!(Flag(false));
        }
        deserializer.deserialize_any(Any)
    }
}

/// A token. `None` for any other value.
pub(super) struct Number(pub(super) Option<u32>);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_u64<E>(self, token: u64) -> Result<Self::Value, E> {
                Ok(Number(u32::try_from(token).ok()))
            }

            skip_scalars!(Number(None); visit_bool: bool, visit_str: &str, visit_i64: i64, visit_f64: f64);
            skip_null!(Number(None));
            skip_seq!(Number(None));
            skip_map!(Number(None));
        }
        deserializer.deserialize_any(Any)
    }
}
