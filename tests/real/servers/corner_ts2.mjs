// A server on the TypeScript SDK 2.x that does whatever it can, in both eras.
// corner_ts2.mjs NAME stdio | streamable-http PORT. Its tools are those of corner_py1.py; it asks
// with `input_required`, which the SDK turns into requests where a client knows no other way.

import { createServer } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { Server, createMcpHandler, inputRequired, inputResponse } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import {
  ADDRESS, CAPABILITIES, COMPLETION, FORM, NAME, NOTE, PORT, PROMPTS, RESOURCES, SAMPLE, TRANSPORT,
  call, filledIn, prompt, read, text, tools,
} from './corner.mjs'

let handler

function makeServer() {
  const capabilities = { ...CAPABILITIES, completions: {} }
  const server = new Server({ name: NAME, version: '1' }, { capabilities })
  server.setRequestHandler('tools/list', () => ({ tools: tools(['detour']) }))
  server.setRequestHandler('tools/call', ({ params }, ctx) =>
    call(params, telling(server, ctx.mcpReq), ctx.mcpReq.signal),
  )
  server.setRequestHandler('resources/list', () => ({ resources: RESOURCES }))
  server.setRequestHandler('resources/read', ({ params }) => read(params))
  server.setRequestHandler('resources/subscribe', () => ({}))
  server.setRequestHandler('resources/unsubscribe', () => ({}))
  server.setRequestHandler('prompts/list', () => ({ prompts: PROMPTS }))
  server.setRequestHandler('prompts/get', ({ params }) => prompt(params))
  server.setRequestHandler('completion/complete', () => COMPLETION)
  return server
}

function telling(server, mcpReq) {
  const asking = (question, finish) => {
    const view = inputResponse(mcpReq.inputResponses, 'it')
    return view.kind === 'missing' ? inputRequired({ inputRequests: { it: question } }) : text(finish(view))
  }
  return {
    structured: true,
    progress: (params) => {
      const progressToken = mcpReq._meta?.progressToken
      if (progressToken === undefined) return
      return mcpReq.notify({ method: 'notifications/progress', params: { progressToken, ...params } })
    },
    log: (level, data) => mcpReq.log(level, data),
    changed: async () => {
      if (handler) {
        handler.notify.resourceUpdated(NOTE)
        handler.notify.toolsChanged()
      } else {
        await server.sendResourceUpdated({ uri: NOTE })
        await server.sendToolListChanged()
      }
    },
    asks: {
      ask: () => asking(inputRequired.elicit(FORM), ({ content }) => filledIn(content)),
      visit: () => asking(inputRequired.elicitUrl(ADDRESS), ({ action }) => action),
      think: () => asking(inputRequired.createMessage(SAMPLE), ({ result }) => result.content.text),
      look: () =>
        asking(inputRequired.listRoots(), ({ roots }) => roots.map(({ uri }) => uri).join(' ')),
    },
  }
}

if (TRANSPORT === 'stdio') {
  serveStdio(makeServer)
} else {
  handler = createMcpHandler(makeServer)
  createServer(toNodeHandler(handler)).listen(PORT, '127.0.0.1')
}
