"""The types of 0.2.5 in the Python documentation of that time: facts about names, in the order of that documentation."""

TEXT = """
AgentCard: name: str; description: str; version: str; url: str; protocolVersion: str | None = '0.2.5'; skills: list[AgentSkill]; capabilities: AgentCapabilities; defaultInputModes: list[str]; defaultOutputModes: list[str]; provider: AgentProvider | None; security: list[dict[str, list[str]]] | None; securitySchemes: dict[str, SecurityScheme] | None
AgentSkill: id: str; name: str; description: str; tags: list[str]; examples: list[str] | None; inputModes: list[str] | None; outputModes: list[str] | None
AgentCapabilities: extensions: list[AgentExtension] | None; pushNotifications: bool | None; stateTransitionHistory: bool | None; streaming: bool | None
AgentExtension: uri: str; description: str | None; params: dict[str, Any] | None; required: bool | None
AgentProvider: organization: str; url: str
AgentInterface: transport: str; url: str
Message: messageId: str; role: Role; parts: list[Part]; kind: Literal['message'] = 'message'; taskId: str | None; contextId: str | None; referenceTaskIds: list[str] | None; extensions: list[str] | None; metadata: dict[str, Any] | None
TextPart: kind: Literal['text'] = 'text'; text: str; metadata: dict[str, Any] | None
FilePart: kind: Literal['file'] = 'file'; file: FileWithBytes | FileWithUri; metadata: dict[str, Any] | None
DataPart: kind: Literal['data'] = 'data'; data: dict[str, Any]; metadata: dict[str, Any] | None
FileWithBytes: bytes: str; name: str | None; mimeType: str | None
FileWithUri: uri: str; name: str | None; mimeType: str | None
Task: id: str; contextId: str; status: TaskStatus; kind: Literal['task'] = 'task'; history: list[Message] | None; artifacts: list[Artifact] | None; metadata: dict[str, Any] | None
TaskStatus: state: TaskState; message: Message | None; timestamp: str | None
Artifact: artifactId: str; parts: list[Part]; name: str | None; description: str | None; extensions: list[str] | None; metadata: dict[str, Any] | None
JSONRPCMessage: jsonrpc: Literal['2.0'] = '2.0'; id: str | int | None
JSONRPCRequest: jsonrpc: Literal['2.0'] = '2.0'; method: str; params: dict[str, Any] | None; id: str | int | None
JSONRPCSuccessResponse: jsonrpc: Literal['2.0'] = '2.0'; result: Any; id: str | int | None
JSONRPCErrorResponse: jsonrpc: Literal['2.0'] = '2.0'; id: str | int | None
JSONParseError: code: Literal[-32700] = -32700; message: str | None = 'Invalid JSON payload'; data: Any | None
InvalidRequestError: code: Literal[-32600] = -32600; message: str | None = 'Request payload validation error'; data: Any | None
MethodNotFoundError: code: Literal[-32601] = -32601; message: str | None = 'Method not found'; data: Any | None
InvalidParamsError: code: Literal[-32602] = -32602; message: str | None = 'Invalid parameters'; data: Any | None
InternalError: code: Literal[-32603] = -32603; message: str | None = 'Internal error'; data: Any | None
TaskNotFoundError: code: Literal[-32001] = -32001; message: str | None = 'Task not found'; data: Any | None
TaskNotCancelableError: code: Literal[-32002] = -32002; message: str | None = 'Task cannot be canceled'; data: Any | None
PushNotificationNotSupportedError: code: Literal[-32003] = -32003; message: str | None = 'Push Notification is not supported'; data: Any | None
UnsupportedOperationError: code: Literal[-32004] = -32004; message: str | None = 'This operation is not supported'; data: Any | None
ContentTypeNotSupportedError: code: Literal[-32005] = -32005; message: str | None = 'Incompatible content types'; data: Any | None
InvalidAgentResponseError: code: Literal[-32006] = -32006; message: str | None = 'Invalid agent response'; data: Any | None
APIKeySecurityScheme: type: Literal['apiKey'] = 'apiKey'; name: str; in: In; description: str | None
HTTPAuthSecurityScheme: type: Literal['http'] = 'http'; scheme: str; bearerFormat: str | None; description: str | None
OAuth2SecurityScheme: type: Literal['oauth2'] = 'oauth2'; flows: OAuthFlows; description: str | None
OpenIdConnectSecurityScheme: type: Literal['openIdConnect'] = 'openIdConnect'; openIdConnectUrl: str; description: str | None
OAuthFlows: implicit: ImplicitOAuthFlow | None; password: PasswordOAuthFlow | None; clientCredentials: ClientCredentialsOAuthFlow | None; authorizationCode: AuthorizationCodeOAuthFlow | None
PushNotificationConfig: url: str; id: str | None; token: str | None; authentication: PushNotificationAuthenticationInfo | None
PushNotificationAuthenticationInfo: schemes: list[str]; credentials: str | None
SendMessageRequest: jsonrpc: Literal['2.0'] = '2.0'; method: Literal['message/send'] = 'message/send'; params: MessageSendParams; id: str | int
MessageSendParams: message: Message; configuration: MessageSendConfiguration | None; metadata: dict[str, Any] | None
MessageSendConfiguration: acceptedOutputModes: list[str]; blocking: bool | None; historyLength: int | None; pushNotificationConfig: PushNotificationConfig | None
GetTaskRequest: jsonrpc: Literal['2.0'] = '2.0'; method: Literal['tasks/get'] = 'tasks/get'; params: TaskQueryParams; id: str | int
TaskQueryParams: id: str; historyLength: int | None; metadata: dict[str, Any] | None
CancelTaskRequest: jsonrpc: Literal['2.0'] = '2.0'; method: Literal['tasks/cancel'] = 'tasks/cancel'; params: TaskIdParams; id: str | int
TaskStatusUpdateEvent: kind: Literal['status-update'] = 'status-update'; taskId: str; contextId: str; status: TaskStatus; final: bool; metadata: dict[str, Any] | None
TaskArtifactUpdateEvent: kind: Literal['artifact-update'] = 'artifact-update'; taskId: str; contextId: str; artifact: Artifact; append: bool | None; lastChunk: bool | None; metadata: dict[str, Any] | None
"""


def _members(text: str) -> list[tuple[str, str, str]]:
    found = []
    for member in text.split("; "):
        name, _, rest = member.partition(": ")
        annotation, _, default = rest.partition(" = ")
        found.append((name, annotation, default))
    return found


#: type -> (member, annotation, default or "")
TYPES = {line.partition(": ")[0]: _members(line.partition(": ")[2]) for line in TEXT.strip().split("\n")}

#: further names: in unions, imports, diagrams and tables
_NAMED = """
A2A A2AError Role TaskState In Part SecurityScheme ImplicitOAuthFlow PasswordOAuthFlow
ClientCredentialsOAuthFlow AuthorizationCodeOAuthFlow JSONRPCError JSONRPCResponse TaskIdParams
TaskPushNotificationConfig SendMessageResponse GetTaskResponse SetTaskPushNotificationConfigRequest
"""
NAMED = _NAMED.split()

#: methods -> the request type that stands for them
METHODS = {
    "message/send": "SendMessageRequest",
    "message/stream": "SendStreamingMessageRequest",
    "tasks/get": "GetTaskRequest",
    "tasks/cancel": "CancelTaskRequest",
    "tasks/resubscribe": "TaskResubscriptionRequest",
    "tasks/pushNotificationConfig/set": "SetTaskPushNotificationConfigRequest",
    "tasks/pushNotificationConfig/get": "GetTaskPushNotificationConfigRequest",
    "tasks/pushNotificationConfig/list": "ListTaskPushNotificationConfigRequest",
    "tasks/pushNotificationConfig/delete": "DeleteTaskPushNotificationConfigRequest",
}
