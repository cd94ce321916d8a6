//! CEL rules of the schemas: those of Longboat's kinds, and those of the embedded Gateway API types.
//!
//! KServe's CRDs have some rules without `has()`. Here these rules are guarded, so that every object that KServe's webhook
//! accepts is accepted.

use serde_json::{Value, json};

/// Creates a list of rules from pairs of rule and message.
fn rules(list: &[(&str, &str)]) -> Value {
    list.iter().map(|(rule, message)| json!({"message": message, "rule": rule})).collect()
}

/// The rule CEL-1.
pub(crate) fn workload() -> Value {
    rules(&[(
        "!(has(self.replicas) && has(self.scaling))",
        "replicas and scaling are mutually exclusive; use scaling for autoscaled deployments or replicas for static deployments",
    )])
}

/// The rules CEL-2 to CEL-9.
pub(crate) fn scaling() -> Value {
    const IDLE_NEEDS_MIN: &str = "minReplicas is required when idleReplicaCount is set";
    const IDLE_BELOW_MIN: &str = "idleReplicaCount must be less than minReplicas; idleReplicaCount defines the replica floor when no triggers are active";
    rules(&[
        (
            "has(self.wva) || has(self.keda)",
            "either wva or keda must be specified when scaling is configured",
        ),
        ("!(has(self.wva) && has(self.keda))", "wva and keda are mutually exclusive"),
        (
            "!has(self.keda) || size(self.keda.triggers) > 0",
            "at least one trigger is required when using direct KEDA scaling",
        ),
        (
            "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
            "minReplicas cannot exceed maxReplicas",
        ),
        (
            "!has(self.wva) || !has(self.wva.keda) || !has(self.wva.keda.idleReplicaCount) || has(self.minReplicas)",
            IDLE_NEEDS_MIN,
        ),
        (
            "!has(self.wva) || !has(self.wva.keda) || !has(self.wva.keda.idleReplicaCount) || !has(self.minReplicas) || self.wva.keda.idleReplicaCount < self.minReplicas",
            IDLE_BELOW_MIN,
        ),
        ("!has(self.keda) || !has(self.keda.idleReplicaCount) || has(self.minReplicas)", IDLE_NEEDS_MIN),
        (
            "!has(self.keda) || !has(self.keda.idleReplicaCount) || !has(self.minReplicas) || self.keda.idleReplicaCount < self.minReplicas",
            IDLE_BELOW_MIN,
        ),
    ])
}

/// The rules CEL-10 to CEL-12, the first with guards.
pub(crate) fn wva() -> Value {
    rules(&[
        (
            "!has(self.keda) || !has(self.keda.advanced) || !has(self.keda.advanced.scalingModifiers) || ((!has(self.keda.advanced.scalingModifiers.formula) || size(self.keda.advanced.scalingModifiers.formula) == 0) && (!has(self.keda.advanced.scalingModifiers.target) || size(self.keda.advanced.scalingModifiers.target) == 0) && (!has(self.keda.advanced.scalingModifiers.activationTarget) || size(self.keda.advanced.scalingModifiers.activationTarget) == 0) && (!has(self.keda.advanced.scalingModifiers.metricType) || size(self.keda.advanced.scalingModifiers.metricType) == 0))",
            "scalingModifiers must not be set; WVA controls the scaling metric formula and logic",
        ),
        (
            "!(has(self.hpa) && has(self.keda))",
            "hpa and keda are mutually exclusive; choose one actuator backend",
        ),
        ("has(self.hpa) || has(self.keda)", "either hpa or keda must be specified as the actuator backend"),
    ])
}

/// The rule CEL-13, with guards.
pub(crate) fn keda() -> Value {
    rules(&[(
        "!has(self.advanced) || !has(self.advanced.horizontalPodAutoscalerConfig) || !has(self.advanced.horizontalPodAutoscalerConfig.name) || size(self.advanced.horizontalPodAutoscalerConfig.name) == 0",
        "horizontalPodAutoscalerConfig.name must not be set; the controller manages the HPA name",
    )])
}

/// A back end that is a Service needs a port.
pub(crate) fn service_port() -> Value {
    rules(&[(
        "(size(self.group) == 0 && self.kind == 'Service') ? has(self.port) : true",
        "Must have port for Service reference",
    )])
}

/// A picker that is a Service needs a port.
pub(crate) fn picker_port() -> Value {
    rules(&[(
        "self.kind != 'Service' || has(self.port)",
        "port is required when kind is 'Service' or unspecified (defaults to 'Service')",
    )])
}

/// The ports of a pool are unique.
pub(crate) fn target_ports() -> Value {
    rules(&[("self.all(p1, self.exists_one(p2, p1.number==p2.number))", "port number must be unique")])
}

/// All rules of a route together have at most 128 matches.
pub(crate) fn route_rules() -> Value {
    let sum = (0..16)
        .map(|i| format!("(self.size() > {i} ? self[{i}].matches.size() : 0)"))
        .collect::<Vec<_>>()
        .join(" + ");
    rules(&[(
        &format!("{sum} <= 128"),
        "While 16 rules and 64 matches per rule are allowed, the total number of matches across all rules in a route must be less than 128",
    )])
}

/// Redirects exclude back ends; replacing a prefix needs exactly one prefix match.
pub(crate) fn route_rule() -> Value {
    const ONE_PREFIX: &str = "((size(self.matches) != 1 || !has(self.matches[0].path) || self.matches[0].path.type != 'PathPrefix') ? false : true) : true";
    let replaces = |filter: &str| {
        format!(
            "f, has(f.{filter}) && has(f.{filter}.path) && f.{filter}.path.type == 'ReplacePrefixMatch' && has(f.{filter}.path.replacePrefixMatch)"
        )
    };
    let own = |filter: &str| {
        format!("(has(self.filters) && self.filters.exists_one({})) ? {ONE_PREFIX}", replaces(filter))
    };
    let behind = |filter: &str| {
        format!(
            "(has(self.backendRefs) && self.backendRefs.exists_one(b, (has(b.filters) && b.filters.exists_one({})) )) ? {ONE_PREFIX}",
            replaces(filter)
        )
    };
    rules(&[
        (
            "(has(self.backendRefs) && size(self.backendRefs) > 0) ? (!has(self.filters) || self.filters.all(f, !has(f.requestRedirect))): true",
            "RequestRedirect filter must not be used together with backendRefs",
        ),
        (
            &own("requestRedirect"),
            "When using RequestRedirect filter with path.replacePrefixMatch, exactly one PathPrefix match must be specified",
        ),
        (
            &own("urlRewrite"),
            "When using URLRewrite filter with path.replacePrefixMatch, exactly one PathPrefix match must be specified",
        ),
        (
            &behind("requestRedirect"),
            "Within backendRefs, when using RequestRedirect filter with path.replacePrefixMatch, exactly one PathPrefix match must be specified",
        ),
        (
            &behind("urlRewrite"),
            "Within backendRefs, When using URLRewrite filter with path.replacePrefixMatch, exactly one PathPrefix match must be specified",
        ),
    ])
}

/// Redirect and rewrite exclude each other; most filters occur at most once.
pub(crate) fn route_filters() -> Value {
    let once = ["CORS", "RequestHeaderModifier", "ResponseHeaderModifier", "RequestRedirect", "URLRewrite"]
        .map(|t| {
            (format!("self.filter(f, f.type == '{t}').size() <= 1"), format!("{t} filter cannot be repeated"))
        });
    let mut list = vec![(
        "!(self.exists(f, f.type == 'RequestRedirect') && self.exists(f, f.type == 'URLRewrite'))",
        "May specify either httpRouteFilterRequestRedirect or httpRouteFilterRequestRewrite, but not both",
    )];
    list.extend(once.iter().map(|(rule, message)| (rule.as_str(), message.as_str())));
    rules(&list)
}

/// The field that `type` names is set, and no other.
pub(crate) fn route_filter() -> Value {
    let fields = [
        ("cors", "CORS"),
        ("requestHeaderModifier", "RequestHeaderModifier"),
        ("responseHeaderModifier", "ResponseHeaderModifier"),
        ("requestMirror", "RequestMirror"),
        ("requestRedirect", "RequestRedirect"),
        ("urlRewrite", "URLRewrite"),
        ("extensionRef", "ExtensionRef"),
    ]
    .map(|(field, kind)| {
        [
            (
                format!("!(has(self.{field}) && self.type != '{kind}')"),
                format!("filter.{field} must be nil if the filter.type is not {kind}"),
            ),
            (
                format!("!(!has(self.{field}) && self.type == '{kind}')"),
                format!("filter.{field} must be specified for {kind} filter.type"),
            ),
        ]
    });
    let list: Vec<_> = fields.iter().flatten().map(|(r, m)| (r.as_str(), m.as_str())).collect();
    rules(&list)
}

/// In a list of a CORS filter, `*` must be the only element.
pub(crate) fn cors_list(field: &str, others: &str) -> Value {
    rules(&[(
        "!('*' in self && self.size() > 1)",
        &format!("{field} cannot contain '*' alongside other {others}"),
    )])
}

/// Either a percentage or a fraction.
pub(crate) fn mirror() -> Value {
    rules(&[(
        "!(has(self.percent) && has(self.fraction))",
        "Only one of percent or fraction may be specified in HTTPRequestMirrorFilter",
    )])
}

/// A fraction is at most one.
pub(crate) fn fraction() -> Value {
    rules(&[("self.numerator <= self.denominator", "numerator must be less than or equal to denominator")])
}

/// The settings match the protocol.
pub(crate) fn external_auth() -> Value {
    rules(&[
        (
            "self.protocol == 'GRPC' ? has(self.grpc) : true",
            "grpc must be specified when protocol is set to 'GRPC'",
        ),
        ("has(self.grpc) ? self.protocol == 'GRPC' : true", "protocol must be 'GRPC' when grpc is set"),
        (
            "self.protocol == 'HTTP' ? has(self.http) : true",
            "http must be specified when protocol is set to 'HTTP'",
        ),
        ("has(self.http) ? self.protocol == 'HTTP' : true", "protocol must be 'HTTP' when http is set"),
    ])
}

/// The field that `type` names is set, and no other.
pub(crate) fn path_modifier() -> Value {
    let list = [("replaceFullPath", "ReplaceFullPath"), ("replacePrefixMatch", "ReplacePrefixMatch")].map(
        |(field, kind)| {
            [
                (
                    format!("self.type == '{kind}' ? has(self.{field}) : true"),
                    format!("{field} must be specified when type is set to '{kind}'"),
                ),
                (
                    format!("has(self.{field}) ? self.type == '{kind}' : true"),
                    format!("type must be '{kind}' when {field} is set"),
                ),
            ]
        },
    );
    let list: Vec<_> = list.iter().flatten().map(|(r, m)| (r.as_str(), m.as_str())).collect();
    rules(&list)
}

/// A path is absolute and clean, unless it is a regular expression.
pub(crate) fn path_match() -> Value {
    const LITERAL: &str = "(self.type in ['Exact','PathPrefix'])";
    const WHEN: &str = "when type one of ['Exact', 'PathPrefix']";
    let mut list = vec![(
        format!("{LITERAL} ? self.value.startsWith('/') : true"),
        format!("value must be an absolute path and start with '/' {WHEN}"),
    )];
    for part in ["//", "/./", "/../", "%2f", "%2F", "#"] {
        list.push((
            format!("{LITERAL} ? !self.value.contains('{part}') : true"),
            format!("must not contain '{part}' {WHEN}"),
        ));
    }
    for end in ["/..", "/."] {
        list.push((
            format!("{LITERAL} ? !self.value.endsWith('{end}') : true"),
            format!("must not end with '{end}' {WHEN}"),
        ));
    }
    list.push((
        "self.type in ['Exact','PathPrefix'] || self.type == 'RegularExpression'".to_owned(),
        "type must be one of ['Exact', 'PathPrefix', 'RegularExpression']".to_owned(),
    ));
    let pattern = "^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$";
    list.push((
        format!("{LITERAL} ? self.value.matches(r\"\"\"{pattern}\"\"\") : true"),
        format!("must only contain valid characters (matching {pattern}) for types ['Exact', 'PathPrefix']"),
    ));
    let list: Vec<_> = list.iter().map(|(r, m)| (r.as_str(), m.as_str())).collect();
    rules(&list)
}

/// The timeout of a back end does not exceed the timeout of the whole request.
pub(crate) fn route_timeouts() -> Value {
    rules(&[(
        "!(has(self.request) && has(self.backendRequest) && duration(self.request) != duration('0s') && duration(self.backendRequest) > duration(self.request))",
        "backendRequest timeout cannot be longer than request timeout",
    )])
}

/// A permanent cookie has a timeout, and cookie settings need a cookie.
pub(crate) fn session_persistence() -> Value {
    rules(&[
        (
            "!has(self.cookieConfig) || !has(self.cookieConfig.lifetimeType) || self.cookieConfig.lifetimeType != 'Permanent' || has(self.absoluteTimeout)",
            "AbsoluteTimeout must be specified when cookie lifetimeType is Permanent",
        ),
        ("!has(self.cookieConfig) || self.type == 'Cookie'", "cookieConfig can only be set with type Cookie"),
    ])
}

/// Listeners have unique names and unique combinations of port, protocol and host. TLS settings match the protocol.
pub(crate) fn listeners() -> Value {
    rules(&[
        (
            "self.all(l, l.protocol in ['HTTP', 'TCP', 'UDP'] ? !has(l.tls) : true)",
            "tls must not be specified for protocols ['HTTP', 'TCP', 'UDP']",
        ),
        (
            "self.all(l, (l.protocol == 'HTTPS' && has(l.tls)) ? (l.tls.mode == '' || l.tls.mode == 'Terminate') : true)",
            "tls mode must be Terminate for protocol HTTPS",
        ),
        (
            "self.all(l, (l.protocol == 'TLS' ? has(l.tls) && has(l.tls.mode) && l.tls.mode != '' : true))",
            "tls mode must be set for protocol TLS",
        ),
        (
            "self.all(l, l.protocol in ['TCP', 'UDP']  ? (!has(l.hostname) || l.hostname == '') : true)",
            "hostname must not be specified for protocols ['TCP', 'UDP']",
        ),
        (
            "self.all(l1, self.exists_one(l2, l1.name == l2.name))",
            "Listener name must be unique within the Gateway",
        ),
        (
            "self.all(l1, self.exists_one(l2, l1.port == l2.port && l1.protocol == l2.protocol && (has(l1.hostname) && has(l2.hostname) ? l1.hostname == l2.hostname : !has(l1.hostname) && !has(l2.hostname))))",
            "Combination of port, protocol and hostname must be unique for each listener",
        ),
    ])
}

/// A listener that terminates TLS has a certificate.
pub(crate) fn listener_tls() -> Value {
    rules(&[(
        "self.mode == 'Terminate' ? size(self.certificateRefs) > 0 || size(self.options) > 0 : true",
        "certificateRefs or options must be specified when mode is Terminate",
    )])
}

/// A requested host name is valid.
pub(crate) fn gateway_address() -> Value {
    rules(&[(
        r#"self.type == 'Hostname' ? (!has(self.value) || self.value.matches(r"""^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$""")): true"#,
        "Hostname value must be empty or contain only valid characters",
    )])
}

/// A reported host name is valid.
pub(crate) fn gateway_status_address() -> Value {
    rules(&[(
        r#"self.type == 'Hostname' ? self.value.matches(r"""^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"""): true"#,
        "Hostname value must only contain valid characters",
    )])
}

/// Requested addresses are unique.
pub(crate) fn gateway_addresses() -> Value {
    rules(&[
        (
            "self.all(a1, a1.type == 'IPAddress' && has(a1.value) ? self.exists_one(a2, a2.type == a1.type && has(a2.value) && a2.value == a1.value) : true )",
            "IPAddress values must be unique",
        ),
        (
            "self.all(a1, a1.type == 'Hostname'  && has(a1.value) ? self.exists_one(a2, a2.type == a1.type && has(a2.value) && a2.value == a1.value) : true )",
            "Hostname values must be unique",
        ),
    ])
}

/// Keys are qualified names.
pub(crate) fn qualified_keys(what: &str) -> Value {
    rules(&[
        (
            r#"self.all(key, key.matches(r"""^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$"""))"#,
            &format!(
                "{what} keys must be a name of at most 63 characters, optionally behind a DNS subdomain and a slash"
            ),
        ),
        (
            r#"self.all(key, key.split("/")[0].size() < 253)"#,
            &format!("the prefix of {what} keys must be shorter than 253 characters"),
        ),
    ])
}

/// Ports with their own TLS settings are unique.
pub(crate) fn frontend_tls_ports() -> Value {
    rules(&[("self.all(t1, self.exists_one(t2, t1.port == t2.port))", "Port must be unique")])
}

/// The value is immutable.
pub(crate) fn immutable() -> Value {
    rules(&[("self == oldSelf", "Value is immutable")])
}
