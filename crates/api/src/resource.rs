//! The macro that makes a top-level kind.

/// Declares a top-level Kubernetes kind with `metadata`, `spec` and `status`, and implements the `k8s_openapi` resource
/// traits (and so also kube's). Objects are accepted with or without `apiVersion` and `kind`, refused if these name another
/// kind, and always serialized with both.
macro_rules! kind {
    (
        $(#[$doc:meta])*
        pub struct $name:ident: $group:literal, $version:literal, $plural:literal, $scope:ident {
            spec: $spec:ty,
            status: $status:ty,
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            /// Standard object metadata.
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// What is wanted.
            pub spec: $spec,
            /// What was observed; none until something reported.
            pub status: Option<$status>,
        }

        impl k8s_openapi::Resource for $name {
            const API_VERSION: &'static str = concat!($group, "/", $version);
            const GROUP: &'static str = $group;
            const KIND: &'static str = stringify!($name);
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = crate::resource::$scope;
        }

        impl k8s_openapi::ListableResource for $name {
            const LIST_KIND: &'static str = concat!(stringify!($name), "List");
        }

        impl k8s_openapi::Metadata for $name {
            type Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct;
                let length = 4 + usize::from(self.status.is_some());
                let mut state = serializer.serialize_struct(stringify!($name), length)?;
                state.serialize_field("apiVersion", <Self as k8s_openapi::Resource>::API_VERSION)?;
                state.serialize_field("kind", <Self as k8s_openapi::Resource>::KIND)?;
                state.serialize_field("metadata", &self.metadata)?;
                state.serialize_field("spec", &self.spec)?;
                if let Some(status) = &self.status {
                    state.serialize_field("status", status)?;
                }
                state.end()
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                #[serde(rename_all = "camelCase", default, bound(deserialize = ""))]
                #[derive(Default)]
                struct Wire {
                    api_version: Option<String>,
                    kind: Option<String>,
                    #[serde(deserialize_with = "crate::wire::null_default")]
                    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
                    #[serde(deserialize_with = "crate::wire::null_default")]
                    spec: $spec,
                    status: Option<$status>,
                }

                // Items of a list may lack both, so only a wrong one is refused.
                let wire = Wire::deserialize(deserializer)?;
                crate::resource::expect::<Self, D::Error>(wire.api_version.as_deref(), wire.kind.as_deref())?;
                Ok(Self { metadata: wire.metadata, spec: wire.spec, status: wire.status })
            }
        }
    };
}

pub(crate) use kind;

/// Scope of a kind whose objects live in namespaces.
pub(crate) use k8s_openapi::NamespaceResourceScope as Namespaced;

/// Scope of a kind whose objects live outside namespaces.
pub(crate) use k8s_openapi::ClusterResourceScope as Cluster;

/// Refuses an object of another kind than `K`. Accepts missing fields.
pub(crate) fn expect<K, E>(api_version: Option<&str>, kind: Option<&str>) -> Result<(), E>
where
    K: k8s_openapi::Resource,
    E: serde::de::Error,
{
    match (api_version, kind) {
        (Some(version), _) if version != K::API_VERSION => {
            Err(E::invalid_value(serde::de::Unexpected::Str(version), &K::API_VERSION))
        }
        (_, Some(kind)) if kind != K::KIND => {
            Err(E::invalid_value(serde::de::Unexpected::Str(kind), &K::KIND))
        }
        _ => Ok(()),
    }
}
