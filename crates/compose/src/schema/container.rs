//! Go types: Containers.

use longboat_template::reflect::Ty::{Bool, Int, IntOrString, Map, Ptr, Quantity, Slice, Str, Struct};

use super::{inlined, opt, req, structure};

structure!(
    CONTAINER,
    "v1.Container",
    [
        req!("name", "Name", Str("string")),
        opt!("image", "Image", Str("string")),
        opt!("command", "Command", Slice("", &Str("string"))),
        opt!("args", "Args", Slice("", &Str("string"))),
        opt!("workingDir", "WorkingDir", Str("string")),
        opt!("ports", "Ports", Slice("", &Struct(&CONTAINER_PORT))),
        opt!("envFrom", "EnvFrom", Slice("", &Struct(&ENV_FROM_SOURCE))),
        opt!("env", "Env", Slice("", &Struct(&ENV_VAR))),
        opt!("resources", "Resources", Struct(&RESOURCE_REQUIREMENTS)),
        opt!("resizePolicy", "ResizePolicy", Slice("", &Struct(&CONTAINER_RESIZE_POLICY))),
        opt!("restartPolicy", "RestartPolicy", Ptr(&Str("v1.ContainerRestartPolicy"))),
        opt!("restartPolicyRules", "RestartPolicyRules", Slice("", &Struct(&CONTAINER_RESTART_RULE))),
        opt!("volumeMounts", "VolumeMounts", Slice("", &Struct(&VOLUME_MOUNT))),
        opt!("volumeDevices", "VolumeDevices", Slice("", &Struct(&VOLUME_DEVICE))),
        opt!("livenessProbe", "LivenessProbe", Ptr(&Struct(&PROBE))),
        opt!("readinessProbe", "ReadinessProbe", Ptr(&Struct(&PROBE))),
        opt!("startupProbe", "StartupProbe", Ptr(&Struct(&PROBE))),
        opt!("lifecycle", "Lifecycle", Ptr(&Struct(&LIFECYCLE))),
        opt!("terminationMessagePath", "TerminationMessagePath", Str("string")),
        opt!("terminationMessagePolicy", "TerminationMessagePolicy", Str("v1.TerminationMessagePolicy")),
        opt!("imagePullPolicy", "ImagePullPolicy", Str("v1.PullPolicy")),
        opt!("securityContext", "SecurityContext", Ptr(&Struct(&SECURITY_CONTEXT))),
        opt!("stdin", "Stdin", Bool("bool")),
        opt!("stdinOnce", "StdinOnce", Bool("bool")),
        opt!("tty", "TTY", Bool("bool")),
    ]
);

structure!(
    EPHEMERAL_CONTAINER,
    "v1.EphemeralContainer",
    [
        inlined!("EphemeralContainerCommon", Struct(&EPHEMERAL_CONTAINER_COMMON)),
        opt!("targetContainerName", "TargetContainerName", Str("string")),
    ]
);

structure!(
    RESOURCE_REQUIREMENTS,
    "v1.ResourceRequirements",
    [
        opt!("limits", "Limits", Map("v1.ResourceList", &Quantity)),
        opt!("requests", "Requests", Map("v1.ResourceList", &Quantity)),
        opt!("claims", "Claims", Slice("", &Struct(&RESOURCE_CLAIM))),
    ]
);

structure!(
    CONTAINER_PORT,
    "v1.ContainerPort",
    [
        opt!("name", "Name", Str("string")),
        opt!("hostPort", "HostPort", Int("int32")),
        req!("containerPort", "ContainerPort", Int("int32")),
        opt!("protocol", "Protocol", Str("v1.Protocol")),
        opt!("hostIP", "HostIP", Str("string")),
    ]
);

structure!(
    ENV_FROM_SOURCE,
    "v1.EnvFromSource",
    [
        opt!("prefix", "Prefix", Str("string")),
        opt!("configMapRef", "ConfigMapRef", Ptr(&Struct(&CONFIG_MAP_ENV_SOURCE))),
        opt!("secretRef", "SecretRef", Ptr(&Struct(&SECRET_ENV_SOURCE))),
    ]
);

structure!(
    ENV_VAR,
    "v1.EnvVar",
    [
        req!("name", "Name", Str("string")),
        opt!("value", "Value", Str("string")),
        opt!("valueFrom", "ValueFrom", Ptr(&Struct(&ENV_VAR_SOURCE))),
    ]
);

structure!(
    CONTAINER_RESIZE_POLICY,
    "v1.ContainerResizePolicy",
    [
        req!("resourceName", "ResourceName", Str("v1.ResourceName")),
        req!("restartPolicy", "RestartPolicy", Str("v1.ResourceResizeRestartPolicy")),
    ]
);

structure!(
    CONTAINER_RESTART_RULE,
    "v1.ContainerRestartRule",
    [
        opt!("action", "Action", Str("v1.ContainerRestartRuleAction")),
        opt!("exitCodes", "ExitCodes", Ptr(&Struct(&CONTAINER_RESTART_RULE_ON_EXIT_CODES))),
    ]
);

structure!(
    VOLUME_MOUNT,
    "v1.VolumeMount",
    [
        req!("name", "Name", Str("string")),
        opt!("readOnly", "ReadOnly", Bool("bool")),
        opt!("recursiveReadOnly", "RecursiveReadOnly", Ptr(&Str("v1.RecursiveReadOnlyMode"))),
        req!("mountPath", "MountPath", Str("string")),
        opt!("subPath", "SubPath", Str("string")),
        opt!("mountPropagation", "MountPropagation", Ptr(&Str("v1.MountPropagationMode"))),
        opt!("subPathExpr", "SubPathExpr", Str("string")),
    ]
);

structure!(
    VOLUME_DEVICE,
    "v1.VolumeDevice",
    [req!("name", "Name", Str("string")), req!("devicePath", "DevicePath", Str("string")),]
);

structure!(
    PROBE,
    "v1.Probe",
    [
        inlined!("ProbeHandler", Struct(&PROBE_HANDLER)),
        opt!("initialDelaySeconds", "InitialDelaySeconds", Int("int32")),
        opt!("timeoutSeconds", "TimeoutSeconds", Int("int32")),
        opt!("periodSeconds", "PeriodSeconds", Int("int32")),
        opt!("successThreshold", "SuccessThreshold", Int("int32")),
        opt!("failureThreshold", "FailureThreshold", Int("int32")),
        opt!("terminationGracePeriodSeconds", "TerminationGracePeriodSeconds", Ptr(&Int("int64"))),
    ]
);

structure!(
    LIFECYCLE,
    "v1.Lifecycle",
    [
        opt!("postStart", "PostStart", Ptr(&Struct(&LIFECYCLE_HANDLER))),
        opt!("preStop", "PreStop", Ptr(&Struct(&LIFECYCLE_HANDLER))),
        opt!("stopSignal", "StopSignal", Ptr(&Str("v1.Signal"))),
    ]
);

structure!(
    SECURITY_CONTEXT,
    "v1.SecurityContext",
    [
        opt!("capabilities", "Capabilities", Ptr(&Struct(&CAPABILITIES))),
        opt!("privileged", "Privileged", Ptr(&Bool("bool"))),
        opt!("seLinuxOptions", "SELinuxOptions", Ptr(&Struct(&SE_LINUX_OPTIONS))),
        opt!("windowsOptions", "WindowsOptions", Ptr(&Struct(&WINDOWS_SECURITY_CONTEXT_OPTIONS))),
        opt!("runAsUser", "RunAsUser", Ptr(&Int("int64"))),
        opt!("runAsGroup", "RunAsGroup", Ptr(&Int("int64"))),
        opt!("runAsNonRoot", "RunAsNonRoot", Ptr(&Bool("bool"))),
        opt!("readOnlyRootFilesystem", "ReadOnlyRootFilesystem", Ptr(&Bool("bool"))),
        opt!("allowPrivilegeEscalation", "AllowPrivilegeEscalation", Ptr(&Bool("bool"))),
        opt!("procMount", "ProcMount", Ptr(&Str("v1.ProcMountType"))),
        opt!("seccompProfile", "SeccompProfile", Ptr(&Struct(&SECCOMP_PROFILE))),
        opt!("appArmorProfile", "AppArmorProfile", Ptr(&Struct(&APP_ARMOR_PROFILE))),
    ]
);

structure!(
    EPHEMERAL_CONTAINER_COMMON,
    "v1.EphemeralContainerCommon",
    [
        req!("name", "Name", Str("string")),
        opt!("image", "Image", Str("string")),
        opt!("command", "Command", Slice("", &Str("string"))),
        opt!("args", "Args", Slice("", &Str("string"))),
        opt!("workingDir", "WorkingDir", Str("string")),
        opt!("ports", "Ports", Slice("", &Struct(&CONTAINER_PORT))),
        opt!("envFrom", "EnvFrom", Slice("", &Struct(&ENV_FROM_SOURCE))),
        opt!("env", "Env", Slice("", &Struct(&ENV_VAR))),
        opt!("resources", "Resources", Struct(&RESOURCE_REQUIREMENTS)),
        opt!("resizePolicy", "ResizePolicy", Slice("", &Struct(&CONTAINER_RESIZE_POLICY))),
        opt!("restartPolicy", "RestartPolicy", Ptr(&Str("v1.ContainerRestartPolicy"))),
        opt!("restartPolicyRules", "RestartPolicyRules", Slice("", &Struct(&CONTAINER_RESTART_RULE))),
        opt!("volumeMounts", "VolumeMounts", Slice("", &Struct(&VOLUME_MOUNT))),
        opt!("volumeDevices", "VolumeDevices", Slice("", &Struct(&VOLUME_DEVICE))),
        opt!("livenessProbe", "LivenessProbe", Ptr(&Struct(&PROBE))),
        opt!("readinessProbe", "ReadinessProbe", Ptr(&Struct(&PROBE))),
        opt!("startupProbe", "StartupProbe", Ptr(&Struct(&PROBE))),
        opt!("lifecycle", "Lifecycle", Ptr(&Struct(&LIFECYCLE))),
        opt!("terminationMessagePath", "TerminationMessagePath", Str("string")),
        opt!("terminationMessagePolicy", "TerminationMessagePolicy", Str("v1.TerminationMessagePolicy")),
        opt!("imagePullPolicy", "ImagePullPolicy", Str("v1.PullPolicy")),
        opt!("securityContext", "SecurityContext", Ptr(&Struct(&SECURITY_CONTEXT))),
        opt!("stdin", "Stdin", Bool("bool")),
        opt!("stdinOnce", "StdinOnce", Bool("bool")),
        opt!("tty", "TTY", Bool("bool")),
    ]
);

structure!(
    SE_LINUX_OPTIONS,
    "v1.SELinuxOptions",
    [
        opt!("user", "User", Str("string")),
        opt!("role", "Role", Str("string")),
        opt!("type", "Type", Str("string")),
        opt!("level", "Level", Str("string")),
    ]
);

structure!(
    WINDOWS_SECURITY_CONTEXT_OPTIONS,
    "v1.WindowsSecurityContextOptions",
    [
        opt!("gmsaCredentialSpecName", "GMSACredentialSpecName", Ptr(&Str("string"))),
        opt!("gmsaCredentialSpec", "GMSACredentialSpec", Ptr(&Str("string"))),
        opt!("runAsUserName", "RunAsUserName", Ptr(&Str("string"))),
        opt!("hostProcess", "HostProcess", Ptr(&Bool("bool"))),
    ]
);

structure!(
    SECCOMP_PROFILE,
    "v1.SeccompProfile",
    [
        req!("type", "Type", Str("v1.SeccompProfileType")),
        opt!("localhostProfile", "LocalhostProfile", Ptr(&Str("string"))),
    ]
);

structure!(
    APP_ARMOR_PROFILE,
    "v1.AppArmorProfile",
    [
        req!("type", "Type", Str("v1.AppArmorProfileType")),
        opt!("localhostProfile", "LocalhostProfile", Ptr(&Str("string"))),
    ]
);

structure!(
    RESOURCE_CLAIM,
    "v1.ResourceClaim",
    [req!("name", "Name", Str("string")), opt!("request", "Request", Str("string")),]
);

structure!(
    CONFIG_MAP_ENV_SOURCE,
    "v1.ConfigMapEnvSource",
    [
        inlined!("LocalObjectReference", Struct(&super::volume::LOCAL_OBJECT_REFERENCE)),
        opt!("optional", "Optional", Ptr(&Bool("bool"))),
    ]
);

structure!(
    SECRET_ENV_SOURCE,
    "v1.SecretEnvSource",
    [
        inlined!("LocalObjectReference", Struct(&super::volume::LOCAL_OBJECT_REFERENCE)),
        opt!("optional", "Optional", Ptr(&Bool("bool"))),
    ]
);

structure!(
    ENV_VAR_SOURCE,
    "v1.EnvVarSource",
    [
        opt!("fieldRef", "FieldRef", Ptr(&Struct(&super::volume::OBJECT_FIELD_SELECTOR))),
        opt!("resourceFieldRef", "ResourceFieldRef", Ptr(&Struct(&super::volume::RESOURCE_FIELD_SELECTOR))),
        opt!("configMapKeyRef", "ConfigMapKeyRef", Ptr(&Struct(&super::volume::CONFIG_MAP_KEY_SELECTOR))),
        opt!("secretKeyRef", "SecretKeyRef", Ptr(&Struct(&super::volume::SECRET_KEY_SELECTOR))),
        opt!("fileKeyRef", "FileKeyRef", Ptr(&Struct(&FILE_KEY_SELECTOR))),
    ]
);

structure!(
    CONTAINER_RESTART_RULE_ON_EXIT_CODES,
    "v1.ContainerRestartRuleOnExitCodes",
    [
        opt!("operator", "Operator", Str("v1.ContainerRestartRuleOnExitCodesOperator")),
        opt!("values", "Values", Slice("", &Int("int32"))),
    ]
);

structure!(
    PROBE_HANDLER,
    "v1.ProbeHandler",
    [
        opt!("exec", "Exec", Ptr(&Struct(&EXEC_ACTION))),
        opt!("httpGet", "HTTPGet", Ptr(&Struct(&HTTP_GET_ACTION))),
        opt!("tcpSocket", "TCPSocket", Ptr(&Struct(&TCP_SOCKET_ACTION))),
        opt!("grpc", "GRPC", Ptr(&Struct(&GRPC_ACTION))),
    ]
);

structure!(
    LIFECYCLE_HANDLER,
    "v1.LifecycleHandler",
    [
        opt!("exec", "Exec", Ptr(&Struct(&EXEC_ACTION))),
        opt!("httpGet", "HTTPGet", Ptr(&Struct(&HTTP_GET_ACTION))),
        opt!("tcpSocket", "TCPSocket", Ptr(&Struct(&TCP_SOCKET_ACTION))),
        opt!("sleep", "Sleep", Ptr(&Struct(&SLEEP_ACTION))),
    ]
);

structure!(
    CAPABILITIES,
    "v1.Capabilities",
    [
        opt!("add", "Add", Slice("", &Str("v1.Capability"))),
        opt!("drop", "Drop", Slice("", &Str("v1.Capability"))),
    ]
);

structure!(
    FILE_KEY_SELECTOR,
    "v1.FileKeySelector",
    [
        req!("volumeName", "VolumeName", Str("string")),
        req!("path", "Path", Str("string")),
        req!("key", "Key", Str("string")),
        opt!("optional", "Optional", Ptr(&Bool("bool"))),
    ]
);

structure!(EXEC_ACTION, "v1.ExecAction", [opt!("command", "Command", Slice("", &Str("string"))),]);

structure!(
    HTTP_GET_ACTION,
    "v1.HTTPGetAction",
    [
        opt!("path", "Path", Str("string")),
        req!("port", "Port", IntOrString),
        opt!("host", "Host", Str("string")),
        opt!("scheme", "Scheme", Str("v1.URIScheme")),
        opt!("httpHeaders", "HTTPHeaders", Slice("", &Struct(&HTTP_HEADER))),
    ]
);

structure!(
    TCP_SOCKET_ACTION,
    "v1.TCPSocketAction",
    [req!("port", "Port", IntOrString), opt!("host", "Host", Str("string")),]
);

structure!(
    GRPC_ACTION,
    "v1.GRPCAction",
    [req!("port", "Port", Int("int32")), req!("service", "Service", Ptr(&Str("string"))),]
);

structure!(SLEEP_ACTION, "v1.SleepAction", [req!("seconds", "Seconds", Int("int64")),]);

structure!(
    HTTP_HEADER,
    "v1.HTTPHeader",
    [req!("name", "Name", Str("string")), req!("value", "Value", Str("string")),]
);
