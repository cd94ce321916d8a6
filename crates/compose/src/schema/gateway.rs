//! Go types: `HTTPRoute` specs.

use longboat_template::reflect::Ty::{Bool, Int, Ptr, Slice, Str, Struct};

use super::{inlined, opt, req, structure};

structure!(
    OBJECT_REFERENCE,
    "v1.ObjectReference",
    [
        req!("group", "Group", Str("v1.Group")),
        req!("kind", "Kind", Str("v1.Kind")),
        req!("name", "Name", Str("v1.ObjectName")),
        opt!("namespace", "Namespace", Ptr(&Str("v1.Namespace"))),
    ]
);

structure!(
    HTTP_ROUTE_SPEC,
    "v1.HTTPRouteSpec",
    [
        inlined!("CommonRouteSpec", Struct(&COMMON_ROUTE_SPEC)),
        opt!("hostnames", "Hostnames", Slice("", &Str("v1.Hostname"))),
        opt!("rules", "Rules", Slice("", &Struct(&HTTP_ROUTE_RULE))),
    ]
);

structure!(
    BACKEND_OBJECT_REFERENCE,
    "v1.BackendObjectReference",
    [
        opt!("group", "Group", Ptr(&Str("v1.Group"))),
        opt!("kind", "Kind", Ptr(&Str("v1.Kind"))),
        req!("name", "Name", Str("v1.ObjectName")),
        opt!("namespace", "Namespace", Ptr(&Str("v1.Namespace"))),
        opt!("port", "Port", Ptr(&Int("int32"))),
    ]
);

structure!(
    COMMON_ROUTE_SPEC,
    "v1.CommonRouteSpec",
    [
        opt!("parentRefs", "ParentRefs", Slice("", &Struct(&PARENT_REFERENCE))),
        opt!("useDefaultGateways", "UseDefaultGateways", Str("v1.GatewayDefaultScope")),
    ]
);

structure!(
    HTTP_ROUTE_RULE,
    "v1.HTTPRouteRule",
    [
        opt!("name", "Name", Ptr(&Str("v1.SectionName"))),
        opt!("matches", "Matches", Slice("", &Struct(&HTTP_ROUTE_MATCH))),
        opt!("filters", "Filters", Slice("", &Struct(&HTTP_ROUTE_FILTER))),
        opt!("backendRefs", "BackendRefs", Slice("", &Struct(&HTTP_BACKEND_REF))),
        opt!("timeouts", "Timeouts", Ptr(&Struct(&HTTP_ROUTE_TIMEOUTS))),
        opt!("retry", "Retry", Ptr(&Struct(&HTTP_ROUTE_RETRY))),
        opt!("sessionPersistence", "SessionPersistence", Ptr(&Struct(&SESSION_PERSISTENCE))),
    ]
);

structure!(
    PARENT_REFERENCE,
    "v1.ParentReference",
    [
        opt!("group", "Group", Ptr(&Str("v1.Group"))),
        opt!("kind", "Kind", Ptr(&Str("v1.Kind"))),
        opt!("namespace", "Namespace", Ptr(&Str("v1.Namespace"))),
        req!("name", "Name", Str("v1.ObjectName")),
        opt!("sectionName", "SectionName", Ptr(&Str("v1.SectionName"))),
        opt!("port", "Port", Ptr(&Int("int32"))),
    ]
);

structure!(
    HTTP_ROUTE_MATCH,
    "v1.HTTPRouteMatch",
    [
        opt!("path", "Path", Ptr(&Struct(&HTTP_PATH_MATCH))),
        opt!("headers", "Headers", Slice("", &Struct(&HTTP_HEADER_MATCH))),
        opt!("queryParams", "QueryParams", Slice("", &Struct(&HTTP_QUERY_PARAM_MATCH))),
        opt!("method", "Method", Ptr(&Str("v1.HTTPMethod"))),
    ]
);

structure!(
    HTTP_ROUTE_FILTER,
    "v1.HTTPRouteFilter",
    [
        req!("type", "Type", Str("v1.HTTPRouteFilterType")),
        opt!("requestHeaderModifier", "RequestHeaderModifier", Ptr(&Struct(&HTTP_HEADER_FILTER))),
        opt!("responseHeaderModifier", "ResponseHeaderModifier", Ptr(&Struct(&HTTP_HEADER_FILTER))),
        opt!("requestMirror", "RequestMirror", Ptr(&Struct(&HTTP_REQUEST_MIRROR_FILTER))),
        opt!("requestRedirect", "RequestRedirect", Ptr(&Struct(&HTTP_REQUEST_REDIRECT_FILTER))),
        opt!("urlRewrite", "URLRewrite", Ptr(&Struct(&HTTPURL_REWRITE_FILTER))),
        opt!("cors", "CORS", Ptr(&Struct(&HTTPCORS_FILTER))),
        opt!("externalAuth", "ExternalAuth", Ptr(&Struct(&HTTP_EXTERNAL_AUTH_FILTER))),
        opt!("extensionRef", "ExtensionRef", Ptr(&Struct(&LOCAL_OBJECT_REFERENCE))),
    ]
);

structure!(
    HTTP_BACKEND_REF,
    "v1.HTTPBackendRef",
    [
        inlined!("BackendRef", Struct(&BACKEND_REF)),
        opt!("filters", "Filters", Slice("", &Struct(&HTTP_ROUTE_FILTER))),
    ]
);

structure!(
    HTTP_ROUTE_TIMEOUTS,
    "v1.HTTPRouteTimeouts",
    [
        opt!("request", "Request", Ptr(&Str("v1.Duration"))),
        opt!("backendRequest", "BackendRequest", Ptr(&Str("v1.Duration"))),
    ]
);

structure!(
    HTTP_ROUTE_RETRY,
    "v1.HTTPRouteRetry",
    [
        opt!("codes", "Codes", Slice("", &Int("v1.HTTPRouteRetryStatusCode"))),
        opt!("attempts", "Attempts", Ptr(&Int("int"))),
        opt!("backoff", "Backoff", Ptr(&Str("v1.Duration"))),
    ]
);

structure!(
    SESSION_PERSISTENCE,
    "v1.SessionPersistence",
    [
        opt!("sessionName", "SessionName", Ptr(&Str("string"))),
        opt!("absoluteTimeout", "AbsoluteTimeout", Ptr(&Str("v1.Duration"))),
        opt!("idleTimeout", "IdleTimeout", Ptr(&Str("v1.Duration"))),
        opt!("type", "Type", Ptr(&Str("v1.SessionPersistenceType"))),
        opt!("cookieConfig", "CookieConfig", Ptr(&Struct(&COOKIE_CONFIG))),
    ]
);

structure!(
    HTTP_PATH_MATCH,
    "v1.HTTPPathMatch",
    [opt!("type", "Type", Ptr(&Str("v1.PathMatchType"))), opt!("value", "Value", Ptr(&Str("string"))),]
);

structure!(
    HTTP_HEADER_MATCH,
    "v1.HTTPHeaderMatch",
    [
        opt!("type", "Type", Ptr(&Str("v1.HeaderMatchType"))),
        req!("name", "Name", Str("v1.HTTPHeaderName")),
        req!("value", "Value", Str("string")),
    ]
);

structure!(
    HTTP_QUERY_PARAM_MATCH,
    "v1.HTTPQueryParamMatch",
    [
        opt!("type", "Type", Ptr(&Str("v1.QueryParamMatchType"))),
        req!("name", "Name", Str("v1.HTTPHeaderName")),
        req!("value", "Value", Str("string")),
    ]
);

structure!(
    HTTP_HEADER_FILTER,
    "v1.HTTPHeaderFilter",
    [
        opt!("set", "Set", Slice("", &Struct(&HTTP_HEADER))),
        opt!("add", "Add", Slice("", &Struct(&HTTP_HEADER))),
        opt!("remove", "Remove", Slice("", &Str("string"))),
    ]
);

structure!(
    HTTP_REQUEST_MIRROR_FILTER,
    "v1.HTTPRequestMirrorFilter",
    [
        req!("backendRef", "BackendRef", Struct(&BACKEND_OBJECT_REFERENCE)),
        opt!("percent", "Percent", Ptr(&Int("int32"))),
        opt!("fraction", "Fraction", Ptr(&Struct(&FRACTION))),
    ]
);

structure!(
    HTTP_REQUEST_REDIRECT_FILTER,
    "v1.HTTPRequestRedirectFilter",
    [
        opt!("scheme", "Scheme", Ptr(&Str("string"))),
        opt!("hostname", "Hostname", Ptr(&Str("v1.PreciseHostname"))),
        opt!("path", "Path", Ptr(&Struct(&HTTP_PATH_MODIFIER))),
        opt!("port", "Port", Ptr(&Int("int32"))),
        opt!("statusCode", "StatusCode", Ptr(&Int("int"))),
    ]
);

structure!(
    HTTPURL_REWRITE_FILTER,
    "v1.HTTPURLRewriteFilter",
    [
        opt!("hostname", "Hostname", Ptr(&Str("v1.PreciseHostname"))),
        opt!("path", "Path", Ptr(&Struct(&HTTP_PATH_MODIFIER))),
    ]
);

structure!(
    HTTPCORS_FILTER,
    "v1.HTTPCORSFilter",
    [
        opt!("allowOrigins", "AllowOrigins", Slice("", &Str("v1.CORSOrigin"))),
        opt!("allowCredentials", "AllowCredentials", Ptr(&Bool("bool"))),
        opt!("allowMethods", "AllowMethods", Slice("", &Str("v1.HTTPMethodWithWildcard"))),
        opt!("allowHeaders", "AllowHeaders", Slice("", &Str("v1.HTTPHeaderName"))),
        opt!("exposeHeaders", "ExposeHeaders", Slice("", &Str("v1.HTTPHeaderName"))),
        opt!("maxAge", "MaxAge", Int("int32")),
    ]
);

structure!(
    HTTP_EXTERNAL_AUTH_FILTER,
    "v1.HTTPExternalAuthFilter",
    [
        opt!("protocol", "ExternalAuthProtocol", Str("v1.HTTPRouteExternalAuthProtocol")),
        opt!("backendRef", "BackendRef", Struct(&BACKEND_OBJECT_REFERENCE)),
        opt!("grpc", "GRPCAuthConfig", Ptr(&Struct(&GRPC_AUTH_CONFIG))),
        opt!("http", "HTTPAuthConfig", Ptr(&Struct(&HTTP_AUTH_CONFIG))),
        opt!("forwardBody", "ForwardBody", Ptr(&Struct(&FORWARD_BODY_CONFIG))),
    ]
);

structure!(
    LOCAL_OBJECT_REFERENCE,
    "v1.LocalObjectReference",
    [
        req!("group", "Group", Str("v1.Group")),
        req!("kind", "Kind", Str("v1.Kind")),
        req!("name", "Name", Str("v1.ObjectName")),
    ]
);

structure!(
    BACKEND_REF,
    "v1.BackendRef",
    [
        inlined!("BackendObjectReference", Struct(&BACKEND_OBJECT_REFERENCE)),
        opt!("weight", "Weight", Ptr(&Int("int32"))),
    ]
);

structure!(
    COOKIE_CONFIG,
    "v1.CookieConfig",
    [opt!("lifetimeType", "LifetimeType", Ptr(&Str("v1.CookieLifetimeType"))),]
);

structure!(
    HTTP_HEADER,
    "v1.HTTPHeader",
    [req!("name", "Name", Str("v1.HTTPHeaderName")), req!("value", "Value", Str("string")),]
);

structure!(
    FRACTION,
    "v1.Fraction",
    [req!("numerator", "Numerator", Int("int32")), opt!("denominator", "Denominator", Ptr(&Int("int32"))),]
);

structure!(
    HTTP_PATH_MODIFIER,
    "v1.HTTPPathModifier",
    [
        req!("type", "Type", Str("v1.HTTPPathModifierType")),
        opt!("replaceFullPath", "ReplaceFullPath", Ptr(&Str("string"))),
        opt!("replacePrefixMatch", "ReplacePrefixMatch", Ptr(&Str("string"))),
    ]
);

structure!(
    GRPC_AUTH_CONFIG,
    "v1.GRPCAuthConfig",
    [opt!("allowedHeaders", "AllowedRequestHeaders", Slice("", &Str("string"))),]
);

structure!(
    HTTP_AUTH_CONFIG,
    "v1.HTTPAuthConfig",
    [
        opt!("path", "Path", Str("string")),
        opt!("allowedHeaders", "AllowedRequestHeaders", Slice("", &Str("string"))),
        opt!("allowedResponseHeaders", "AllowedResponseHeaders", Slice("", &Str("string"))),
    ]
);

structure!(FORWARD_BODY_CONFIG, "v1.ForwardBodyConfig", [opt!("maxSize", "MaxSize", Int("uint16")),]);
