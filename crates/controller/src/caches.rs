//! The objects that watches report, kind by kind.

use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig};
use longboat_plan::{Peer, kinds, types};
use longboat_store::Layout;

use crate::{secret_contents::SecretMetadata, watch::kinds::WatchedKind};

/// The cache of one kind. For services, it also has their peers.
pub(crate) type Cache<K> = longboat_store::Cache<K, Peer>;

/// A change of an object.
pub(crate) type Change<'a, K> = longboat_store::Change<'a, K, Peer>;

fn empty<K: WatchedKind>() -> Cache<K> {
    Cache::new(Layout {
        is_compressed: K::is_compressed,
        is_typical: K::is_typical,
        summary: K::peer,
        from_metadata: K::FROM_METADATA,
    })
}

macro_rules! caches {
    ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
        /// The objects of every kind that is watched.
        #[derive(Debug)]
        pub(crate) struct Caches {
            pub(crate) inference_services: Cache<LLMInferenceService>,
            pub(crate) configs: Cache<LLMInferenceServiceConfig>,
            pub(crate) namespaces: Cache<k8s_openapi::api::core::v1::Namespace>,
            /// The metadata of Secrets that are not ours.
            pub(crate) secret_metadata: Cache<SecretMetadata>,
            $(pub(crate) $field: Cache<types::$kind>,)*
        }

        impl Default for Caches {
            fn default() -> Self {
                Self {
                    inference_services: empty(),
                    configs: empty(),
                    namespaces: empty(),
                    secret_metadata: empty(),
                    $($field: empty(),)*
                }
            }
        }
    };
}

kinds!(all caches);
