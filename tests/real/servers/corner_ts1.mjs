// A server on any TypeScript SDK 1.x that does whatever that version can.
// corner_ts1.mjs NAME stdio | sse PORT | streamable-http PORT, with the package of the SDK in
// MCP_SDK. Its tools are those of corner_py1.py.

import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import {
  ADDRESS, CAPABILITIES, COMPLETION, FORM, NAME, NOTE, PORT, PROMPTS, RESOURCES, SAMPLE, TRANSPORT,
  call, filledIn, prompt, read, text, tools,
} from './corner.mjs'

const sdk = process.env.MCP_SDK
const { Server } = await import(`${sdk}/server/index.js`)
const types = await import(`${sdk}/types.js`)
const knowsElicitation = 'ElicitRequestSchema' in types
const absent = knowsElicitation ? [] : ['ask', 'visit', 'detour', 'speak', 'point', 'structured']
const capabilities = knowsElicitation ? { ...CAPABILITIES, completions: {} } : CAPABILITIES

const there = { mode: 'url', elicitationId: 'one', ...ADDRESS }

function makeServer() {
  const server = new Server({ name: NAME, version: '1' }, { capabilities })
  const on = (schema, answer) => server.setRequestHandler(types[`${schema}RequestSchema`], answer)
  on('ListTools', () => ({ tools: tools(absent) }))
  on('CallTool', ({ params }, extra) => call(params, telling(server, params, extra), extra.signal))
  on('ListResources', () => ({ resources: RESOURCES }))
  on('ReadResource', ({ params }) => read(params))
  on('Subscribe', () => ({}))
  on('Unsubscribe', () => ({}))
  on('ListPrompts', () => ({ prompts: PROMPTS }))
  on('GetPrompt', ({ params }) => prompt(params))
  on('Complete', () => COMPLETION)
  on('SetLevel', () => ({}))
  return server
}

function telling(server, { _meta }, extra) {
  // What belongs to a call goes on its own stream, since there are such streams.
  const notify = extra.sendNotification ?? ((notification) => server.notification(notification))
  return {
    structured: !absent.includes('structured'),
    progress: (params) => {
      const progressToken = _meta?.progressToken
      if (progressToken === undefined) return
      return notify({ method: 'notifications/progress', params: { progressToken, ...params } })
    },
    log: (level, data) => notify({ method: 'notifications/message', params: { level, data } }),
    changed: async () => {
      await server.sendResourceUpdated({ uri: NOTE })
      await server.sendToolListChanged()
    },
    elsewhere: () => new types.UrlElicitationRequiredError([there]),
    asks: {
      ask: async () => text(filledIn((await server.elicitInput(FORM)).content)),
      visit: async () => text((await server.elicitInput(there)).action),
      think: async () => text((await server.createMessage(SAMPLE)).content.text),
      look: async () => text((await server.listRoots()).roots.map(({ uri }) => uri).join(' ')),
    },
  }
}

const serve = {
  stdio: async () => {
    const { StdioServerTransport } = await import(`${sdk}/server/stdio.js`)
    await makeServer().connect(new StdioServerTransport())
  },
  sse: async () => {
    const { SSEServerTransport } = await import(`${sdk}/server/sse.js`)
    const sessions = new Map()
    listen(async (request, response) => {
      if (request.method === 'GET') {
        const transport = new SSEServerTransport('/messages', response)
        sessions.set(transport.sessionId, transport)
        await makeServer().connect(transport)
        return
      }
      const id = new URL(request.url, 'http://localhost').searchParams.get('sessionId')
      if (sessions.has(id)) await sessions.get(id).handlePostMessage(request, response)
      else response.writeHead(404).end()
    })
  },
  'streamable-http': async () => {
    const { StreamableHTTPServerTransport } = await import(`${sdk}/server/streamableHttp.js`)
    const sessions = new Map()
    listen(async (request, response) => {
      const id = request.headers['mcp-session-id']
      let transport = sessions.get(id)
      if (id !== undefined && transport === undefined) {
        response.writeHead(404).end()
        return
      }
      if (transport === undefined) {
        transport = new StreamableHTTPServerTransport({
          sessionIdGenerator: () => randomUUID(),
          onsessioninitialized: (made) => sessions.set(made, transport),
        })
        await makeServer().connect(transport)
      }
      await transport.handleRequest(request, response)
    })
  },
}

function listen(answer) {
  createServer((request, response) => void answer(request, response)).listen(PORT, '127.0.0.1')
}

await serve[TRANSPORT]()
