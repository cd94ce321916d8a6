//! The kinds of objects that planning creates and reads. A new kind of child needs one row in the table here, one file under
//! `compare/`, and one file that creates it.

/// The Rust types of the kinds, each under a unique name.
pub mod types {
    pub use k8s_openapi::api::{
        apps::v1::Deployment,
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount},
        discovery::v1::EndpointSlice,
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
        rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
        resource::v1::ResourceClaimTemplate,
    };
    pub use longboat_api::foreign::{
        gateway::Gateway,
        gatewayclass::GatewayClass,
        httproute::HTTPRoute,
        inferencepool::InferencePool,
        inferencepool_x::InferencePool as InferencePoolX,
        leaderworkerset::LeaderWorkerSet,
        localmodelcache::{LocalModelCache, LocalModelNamespaceCache},
        scaledobject::ScaledObject,
        servingruntime::{ClusterServingRuntime, ServingRuntime},
    };
}

/// Hands the table of kinds to a macro: `kinds!(children each)` hands over the kinds that planning creates,
/// `kinds!(all each)` also the kinds that it only reads.
///
/// A row has a description of the kind, the field that holds its objects, the type (see [`types`]), and two groups:
///
/// * For a child: its type in events of the reference, and the [`Wave`](crate::Wave) in which it is written.
/// * How the controller observes it. The scope: `namespaced` or `cluster`. How it is stored: `decoded`, as compressed text
///   (`compressed`), or as text of which only the metadata is decoded at first (`metadata_first`). Which objects: `all`, or
///   those with our label (`labelled`). Whether the controller adds rules to the watch (`ruled`) or not (`plain`). How it is
///   known that the cluster serves the kind: every cluster does (`built_in`), by the name of its CRD, or by discovery
///   (`discovered`); then follows the field of [`Capabilities`](crate::Capabilities) for it, if there is one.
#[macro_export]
macro_rules! kinds {
    ($which:ident $then:ident) => {
        $crate::kinds! { @$which $then
            // Kinds that other kinds need come first.
            {
                /// The list of adapters that are loaded while pods run; and the copy of the platform's CA bundle, which all services
                /// of a namespace share, so that it has no owner.
                config_maps: ConfigMap ("v1.ConfigMap", Foundation) (namespaced, decoded, all, ruled, built_in);
                /// The TLS secret, and the secrets that hold storage credentials.
                secrets: Secret ("v1.Secret", Certificate) (namespaced, compressed, labelled, ruled, built_in);
                /// The accounts of the scheduler, and of workloads that need rights.
                service_accounts: ServiceAccount ("v1.ServiceAccount", Foundation) (namespaced, metadata_first, all, plain, built_in);
                /// What scheduler and routing sidecars may read.
                roles: Role ("v1.Role", Foundation) (namespaced, metadata_first, labelled, plain, built_in);
                /// Bind those roles.
                role_bindings: RoleBinding ("v1.RoleBinding", Binding) (namespaced, metadata_first, labelled, plain, built_in);
                /// Lets the scheduler check tokens. Cluster-scoped, so without an owner: removed by the finalizer.
                cluster_role_bindings: ClusterRoleBinding ("v1.ClusterRoleBinding", Binding) (cluster, compressed, labelled, ruled, built_in);
                /// What devices each pod of the model server claims.
                resource_claim_templates: ResourceClaimTemplate ("v1.ResourceClaimTemplate", Foundation)
                    (namespaced, compressed, all, plain, discovered resource_claim_template);
                /// Model servers whose replicas are groups of pods.
                leader_worker_sets: LeaderWorkerSet ("v1.LeaderWorkerSet", Workload)
                    (namespaced, compressed, labelled, plain, "leaderworkersets.leaderworkerset.x-k8s.io" leader_worker_set);
                /// Model servers, the scheduler, the tokenizer.
                deployments: Deployment ("v1.Deployment", Workload) (namespaced, metadata_first, labelled, plain, built_in);
                /// The workload's Service, the scheduler's, the tokenizer's; and those that may be behind a Gateway.
                services: Service ("v1.Service", Foundation) (namespaced, metadata_first, all, ruled, built_in);
                /// How many pods of a workload may be evicted at a time.
                pod_disruption_budgets: PodDisruptionBudget ("v1.PodDisruptionBudget", Scaling)
                    (namespaced, compressed, labelled, plain, built_in);
                /// Who may call the scheduler.
                network_policies: NetworkPolicy ("v1.NetworkPolicy", Foundation)
                    (namespaced, compressed, labelled, plain, built_in);
                /// What scales workloads by metrics of the cluster.
                horizontal_pod_autoscalers: HorizontalPodAutoscaler ("v2.HorizontalPodAutoscaler", Scaling)
                    (namespaced, decoded, labelled, ruled, built_in);
                /// What scales workloads by KEDA.
                scaled_objects: ScaledObject ("v1alpha1.ScaledObject", Scaling)
                    (namespaced, compressed, labelled, plain, "scaledobjects.keda.sh" scaled_object);
                /// The pool that the scheduler picks from.
                inference_pools: InferencePool ("v1.InferencePool", Pool)
                    (namespaced, compressed, all, plain, "inferencepools.inference.networking.k8s.io" inference_pool);
                /// The same pool in the older group.
                inference_pools_x: InferencePoolX ("v1alpha2pool.InferencePool", Pool)
                    (namespaced, compressed, all, plain, "inferencepools.inference.networking.x-k8s.io" inference_pool_x);
                // Of the Gateway API services need routes; their CRD is installed together with that of Gateways.
                /// The managed route, and those that services reference.
                http_routes: HTTPRoute ("v1.HTTPRoute", Route)
                    (namespaced, compressed, all, plain, "httproutes.gateway.networking.k8s.io" gateway_api);
            }
            {
                /// Pods of services, for the addresses in certificates and for the causes in conditions.
                pods: Pod () (namespaced, decoded, labelled, ruled, built_in);
                /// Where the picker that pools share picks for services.
                endpoint_slices: EndpointSlice () (namespaced, decoded, all, ruled, built_in);
                /// Gateways, of all namespaces.
                gateways: Gateway () (namespaced, decoded, all, ruled, "gateways.gateway.networking.k8s.io");
                /// Gateway classes.
                gateway_classes: GatewayClass () (cluster, decoded, all, plain, "gatewayclasses.gateway.networking.k8s.io");
                /// Runtimes, which services name in `spec.runtime`. Composition reads them, as layers.
                serving_runtimes: ServingRuntime () (namespaced, decoded, all, ruled, "servingruntimes.serving.kserve.io");
                /// Runtimes of the cluster.
                cluster_serving_runtimes: ClusterServingRuntime ()
                    (cluster, decoded, all, ruled, "clusterservingruntimes.serving.kserve.io");
                /// Models that are cached for services of all namespaces. LoRA adapters may come from them.
                local_model_caches: LocalModelCache () (cluster, decoded, all, plain, "localmodelcaches.serving.kserve.io");
                /// Models that are cached for services of one namespace.
                local_model_namespace_caches: LocalModelNamespaceCache ()
                    (namespaced, decoded, all, plain, "localmodelnamespacecaches.serving.kserve.io");
            }
        }
    };
    (@children $then:ident { $($child:tt)* } { $($other:tt)* }) => {
        $then! { $($child)* }
    };
    (@all $then:ident { $($child:tt)* } { $($other:tt)* }) => {
        $then! { $($child)* $($other)* }
    };
}
