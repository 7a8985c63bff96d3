"""The members of every type of 0.3.0, from the JSON schema of the specification: `*` marks the required ones."""

OBJECTS = """
Task: artifacts contextId* history id* kind* metadata status*
TaskStatus: message state* timestamp
Message: contextId extensions kind* messageId* metadata parts* referenceTaskIds role* taskId
PartBase: metadata
TextPart: kind* metadata text*
FilePart: file* kind* metadata
FileBase: mimeType name
FileWithBytes: bytes* mimeType name
FileWithUri: mimeType name uri*
DataPart: data* kind* metadata
Artifact: artifactId* description extensions metadata name parts*
TaskStatusUpdateEvent: contextId* final* kind* metadata status* taskId*
TaskArtifactUpdateEvent: append artifact* contextId* kind* lastChunk metadata taskId*
AgentCard: additionalInterfaces capabilities* defaultInputModes* defaultOutputModes* description* documentationUrl iconUrl name* preferredTransport protocolVersion* provider security securitySchemes signatures skills* supportsAuthenticatedExtendedCard url* version*
AgentProvider: organization* url*
AgentCapabilities: extensions pushNotifications stateTransitionHistory streaming
AgentExtension: description params required uri*
AgentSkill: description* examples id* inputModes name* outputModes security tags*
AgentInterface: transport* url*
AgentCardSignature: header protected* signature*
SecuritySchemeBase: description
APIKeySecurityScheme: description in* name* type*
HTTPAuthSecurityScheme: bearerFormat description scheme* type*
OAuth2SecurityScheme: description flows* oauth2MetadataUrl type*
OpenIdConnectSecurityScheme: description openIdConnectUrl* type*
MutualTLSSecurityScheme: description type*
OAuthFlows: authorizationCode clientCredentials implicit password
AuthorizationCodeOAuthFlow: authorizationUrl* refreshUrl scopes* tokenUrl*
ClientCredentialsOAuthFlow: refreshUrl scopes* tokenUrl*
ImplicitOAuthFlow: authorizationUrl* refreshUrl scopes*
PasswordOAuthFlow: refreshUrl scopes* tokenUrl*
MessageSendParams: configuration message* metadata
MessageSendConfiguration: acceptedOutputModes blocking historyLength pushNotificationConfig
TaskIdParams: id* metadata
TaskQueryParams: historyLength id* metadata
PushNotificationConfig: authentication id token url*
PushNotificationAuthenticationInfo: credentials schemes*
TaskPushNotificationConfig: pushNotificationConfig* taskId*
GetTaskPushNotificationConfigParams: id* metadata pushNotificationConfigId
ListTaskPushNotificationConfigParams: id* metadata
DeleteTaskPushNotificationConfigParams: id* metadata pushNotificationConfigId*
JSONRPCMessage: id jsonrpc*
JSONRPCRequest: id jsonrpc* method* params
JSONRPCSuccessResponse: id* jsonrpc* result*
JSONRPCErrorResponse: error* id* jsonrpc*
JSONRPCError: code* data message*
"""

#: the differences of 0.2.5
OLDER = """
AgentCard: additionalInterfaces capabilities* defaultInputModes* defaultOutputModes* description* documentationUrl iconUrl name* preferredTransport protocolVersion* provider security securitySchemes skills* supportsAuthenticatedExtendedCard url* version*
AgentSkill: description* examples id* inputModes name* outputModes tags*
MessageSendConfiguration: acceptedOutputModes* blocking historyLength pushNotificationConfig
OAuth2SecurityScheme: description flows* type*
"""

#: name -> code, default message; the last one is not in 0.2.5
ERRORS = {
    "JSONParseError": (-32700, "Invalid JSON payload"),
    "InvalidRequestError": (-32600, "Request payload validation error"),
    "MethodNotFoundError": (-32601, "Method not found"),
    "InvalidParamsError": (-32602, "Invalid parameters"),
    "InternalError": (-32603, "Internal error"),
    "TaskNotFoundError": (-32001, "Task not found"),
    "TaskNotCancelableError": (-32002, "Task cannot be canceled"),
    "PushNotificationNotSupportedError": (-32003, "Push Notification is not supported"),
    "UnsupportedOperationError": (-32004, "This operation is not supported"),
    "ContentTypeNotSupportedError": (-32005, "Incompatible content types"),
    "InvalidAgentResponseError": (-32006, "Invalid agent response"),
    "AuthenticatedExtendedCardNotConfiguredError": (-32007, "Authenticated Extended Card is not configured"),
}

#: method -> name without Request, its params, its result; the last one is not in 0.2.5
METHODS = {
    "message/send": ("SendMessage", "MessageSendParams", "Task Message"),
    "message/stream": (
        "SendStreamingMessage",
        "MessageSendParams",
        "Task Message TaskStatusUpdateEvent TaskArtifactUpdateEvent",
    ),
    "tasks/get": ("GetTask", "TaskQueryParams", "Task"),
    "tasks/cancel": ("CancelTask", "TaskIdParams", "Task"),
    "tasks/pushNotificationConfig/set": (
        "SetTaskPushNotificationConfig",
        "TaskPushNotificationConfig",
        "TaskPushNotificationConfig",
    ),
    "tasks/pushNotificationConfig/get": (
        "GetTaskPushNotificationConfig",
        "TaskIdParams GetTaskPushNotificationConfigParams",
        "TaskPushNotificationConfig",
    ),
    "tasks/pushNotificationConfig/list": (
        "ListTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigParams",
        "TaskPushNotificationConfig[]",
    ),
    "tasks/pushNotificationConfig/delete": (
        "DeleteTaskPushNotificationConfig",
        "DeleteTaskPushNotificationConfigParams",
        "null",
    ),
    "tasks/resubscribe": (
        "TaskResubscription",
        "TaskIdParams",
        "",  # answered by SendStreamingMessageResponse
    ),
    "agent/getAuthenticatedExtendedCard": ("GetAuthenticatedExtendedCard", "", "AgentCard"),
}

ENUMS = {
    "TaskState": "submitted working input-required completed canceled failed rejected auth-required unknown",
    "Role": "agent user",
    "In": "cookie header query",
    "TransportProtocol": "JSONRPC GRPC HTTP+JSON",
}

#: union -> branches, besides the numbered errors
UNIONS = {
    "Part": "TextPart FilePart DataPart",
    "SecurityScheme": "APIKeySecurityScheme HTTPAuthSecurityScheme OAuth2SecurityScheme "
    "OpenIdConnectSecurityScheme MutualTLSSecurityScheme",
}

#: required by the schema, yet with a default in the models: the reason
TOLERATED = {
    "kind": "examples of the specification leave it out, and so do peers",
    "type": "the class says it",
    "jsonrpc": "the only value there is",
    "method": "the class says it",
    "code": "the class says it",
    "message": "the numbered errors have default texts",
    "final": "the prose of 0.2.5 (7.2.2) calls it optional, false by default",
    "protocolVersion": "every version has one value that is meant",
    "id": "answers to what could not be read have none",
    "result": "null is the only answer to a delete",
}


def table(text: str) -> dict[str, dict[str, bool]]:
    """Type -> member -> whether it is required."""
    lines = (line.partition(":") for line in text.strip().splitlines())
    return {
        name: {word.rstrip("*"): word.endswith("*") for word in members.split()} for name, _, members in lines
    }
