//! Access to the fields of pods and containers by their JSON names.

use k8s_openapi::api::core::v1::{Container, PodSpec};

/// A type whose fields can be swapped one by one.
pub(crate) trait Fields {
    /// The names of all fields.
    #[cfg(test)]
    const KEYS: &'static [&'static str];

    /// Swaps the field `key` with that of `other`. Ignores keys that the type does not have, as deserialization does.
    fn exchange(&mut self, key: &str, other: &mut Self);
}

macro_rules! fields {
    ($type:ident { $($field:ident: $key:literal,)* }) => {
        impl Fields for $type {
            #[cfg(test)]
            const KEYS: &'static [&'static str] = &[$($key),*];

            fn exchange(&mut self, key: &str, other: &mut Self) {
                // This names all fields, so a field that a newer version of the API adds breaks the build until it is listed
                // here.
                let Self { $($field),* } = self;
                match key {
                    $($key => std::mem::swap($field, &mut other.$field),)*
                    _ => {}
                }
            }
        }
    };
}

fields!(Container {
    args: "args",
    command: "command",
    env: "env",
    env_from: "envFrom",
    image: "image",
    image_pull_policy: "imagePullPolicy",
    lifecycle: "lifecycle",
    liveness_probe: "livenessProbe",
    name: "name",
    ports: "ports",
    readiness_probe: "readinessProbe",
    resize_policy: "resizePolicy",
    resources: "resources",
    restart_policy: "restartPolicy",
    restart_policy_rules: "restartPolicyRules",
    security_context: "securityContext",
    startup_probe: "startupProbe",
    stdin: "stdin",
    stdin_once: "stdinOnce",
    termination_message_path: "terminationMessagePath",
    termination_message_policy: "terminationMessagePolicy",
    tty: "tty",
    volume_devices: "volumeDevices",
    volume_mounts: "volumeMounts",
    working_dir: "workingDir",
});

fields!(PodSpec {
    active_deadline_seconds: "activeDeadlineSeconds",
    affinity: "affinity",
    automount_service_account_token: "automountServiceAccountToken",
    containers: "containers",
    dns_config: "dnsConfig",
    dns_policy: "dnsPolicy",
    enable_service_links: "enableServiceLinks",
    ephemeral_containers: "ephemeralContainers",
    host_aliases: "hostAliases",
    host_ipc: "hostIPC",
    host_network: "hostNetwork",
    host_pid: "hostPID",
    host_users: "hostUsers",
    hostname: "hostname",
    hostname_override: "hostnameOverride",
    image_pull_secrets: "imagePullSecrets",
    init_containers: "initContainers",
    node_name: "nodeName",
    node_selector: "nodeSelector",
    os: "os",
    overhead: "overhead",
    preemption_policy: "preemptionPolicy",
    priority: "priority",
    priority_class_name: "priorityClassName",
    readiness_gates: "readinessGates",
    resource_claims: "resourceClaims",
    resources: "resources",
    restart_policy: "restartPolicy",
    runtime_class_name: "runtimeClassName",
    scheduler_name: "schedulerName",
    scheduling_gates: "schedulingGates",
    security_context: "securityContext",
    service_account: "serviceAccount",
    service_account_name: "serviceAccountName",
    set_hostname_as_fqdn: "setHostnameAsFQDN",
    share_process_namespace: "shareProcessNamespace",
    subdomain: "subdomain",
    termination_grace_period_seconds: "terminationGracePeriodSeconds",
    tolerations: "tolerations",
    topology_spread_constraints: "topologySpreadConstraints",
    volumes: "volumes",
});

#[cfg(test)]
mod tests {
    use longboat_template::reflect::Ty;

    use super::*;
    use crate::schema;

    /// The JSON keys of the type at a path of the spec; for a list, those of its elements.
    fn keys(path: &[&str]) -> Vec<&'static str> {
        let mut ty = schema::SPEC;
        for step in path {
            ty = schema_field(ty, step).unwrap();
        }
        let Ty::Struct(of) = bare(ty) else { panic!("{path:?} is no struct") };
        let mut keys: Vec<_> = of.fields.iter().map(|field| field.json).collect();
        keys.sort_unstable();
        keys
    }

    fn bare(ty: Ty) -> Ty {
        match ty {
            Ty::Ptr(inner) | Ty::Slice(_, inner) => bare(*inner),
            other => other,
        }
    }

    fn schema_field(ty: Ty, key: &str) -> Option<Ty> {
        let Ty::Struct(of) = bare(ty) else { return None };
        of.fields.iter().find_map(|field| match field.json {
            "" => schema_field(field.ty, key),
            json => (json == key).then_some(field.ty),
        })
    }

    fn known<T: Fields>() -> Vec<&'static str> {
        let mut keys = T::KEYS.to_vec();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn the_names_are_those_of_the_api() {
        assert_eq!(known::<Container>(), keys(&["template", "containers"]));
        assert_eq!(known::<PodSpec>(), keys(&["template"]));
    }
}
