// A real identity provider (oidc-provider) for the tests, on a port of its own. Its first line is `ready URL`.
// What users do in a browser, and what operators do, is below /test/: a user confirms a device, keys rotate.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const newKey = () => ({
  ...generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' }),
  kid: randomBytes(8).toString('hex'),
  use: 'sig',
  alg: 'ES256',
});

const client = (client_id, grant_types, more = {}) => ({
  client_id,
  client_secret: 'a secret of a test, as long as 32 bytes',
  grant_types,
  redirect_uris: [],
  response_types: [],
  ...more,
});

const device = 'urn:ietf:params:oauth:grant-type:device_code';
const clients = [
  client('service', ['client_credentials']),
  client('app', [device, 'refresh_token']),
  client('bound', ['client_credentials'], { tls_client_certificate_bound_access_tokens: true }),
];

// As a proxy that ends TLS says it.
const getCertificate = (ctx) => {
  const found = ctx.get('x-client-certificate');
  return found ? decodeURIComponent(found) : undefined;
};

const made = (issuer, keys) => new Provider(issuer, {
  clients,
  clientDefaults: { id_token_signed_response_alg: 'ES256' },
  cookies: { keys: [randomBytes(16).toString('hex')] },
  jwks: { keys },
  scopes: ['openid', 'offline_access', 'read', 'send'],
  findAccount: (_ctx, accountId) => ({ accountId, claims: async () => ({ sub: accountId }) }),
  features: {
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true },
    devInteractions: { enabled: false },
    dPoP: { enabled: true },
    mTLS: { enabled: true, certificateBoundAccessTokens: true, getCertificate },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (_ctx, audience) => ({
        audience,
        scope: 'read send',
        accessTokenFormat: 'jwt',
        accessTokenTTL: 300,
        jwt: { sign: { alg: 'ES256' } },
      }),
    },
  },
});

const confirmed = async (provider, userCode, accountId) => {
  const code = await provider.DeviceCode.findByUserCode(userCode.replaceAll('-', ''));
  const { resource, scope } = code.params;
  const grant = new provider.Grant({ accountId, clientId: code.clientId });
  grant.addOIDCScope(scope);
  grant.addResourceScope(resource, scope);
  Object.assign(code, {
    accountId, scope, resource, grantId: await grant.save(), authTime: Math.floor(Date.now() / 1000), acr: '0', amr: [],
  });
  await code.save(600);
};

let keys = [newKey()];
let provider;
const server = createServer(async (request, response) => {
  const url = new URL(request.url, 'http://localhost');
  if (url.pathname === '/test/confirm') {
    await confirmed(provider, url.searchParams.get('code'), url.searchParams.get('user'));
    response.end();
  } else if (url.pathname === '/test/rotate') {
    keys = [newKey(), ...(url.searchParams.has('keep') ? keys : [])];
    provider = made(provider.issuer, keys);
    response.end();
  } else {
    provider.callback()(request, response);
  }
});
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  provider = made(issuer, keys);
  console.log(`ready ${issuer}`);
});
process.stdin.resume().on('end', () => process.exit(0));
