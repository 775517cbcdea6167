// A server on the TypeScript SDK 2.x with a skill, and with an app made with its companion
// ext-apps. extended_ts2.mjs SKILL stdio | PORT: the name of its skill, and where it listens.

import { createServer } from 'node:http'
import { registerAppResource, registerAppTool, RESOURCE_MIME_TYPE } from '@modelcontextprotocol/ext-apps/server'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { McpServer, createMcpHandler } from '@modelcontextprotocol/server'
import { SkillsExtension, memorySkillFiles } from '@modelcontextprotocol/server/ext/skills'
import { serveStdio } from '@modelcontextprotocol/server/stdio'

const VIEW = 'ui://view/main.html'
const [skill, place] = process.argv.slice(2)
const catalog = await SkillsExtension.load(
  memorySkillFiles({
    [`${skill}/SKILL.md`]: `---\nname: ${skill}\ndescription: Of the TypeScript SDK\n---\n\nSee [more](references/MORE.md).\n`,
    [`${skill}/references/MORE.md`]: `More of ${skill}.\n`,
  }),
)

function makeServer() {
  const server = new McpServer({ name: skill, version: '1' })
  registerAppTool(
    server,
    'show',
    { description: 'Shows something', _meta: { ui: { resourceUri: VIEW } } },
    () => ({ content: [{ type: 'text', text: `shown by ${skill}` }] }),
  )
  registerAppResource(server, 'View', VIEW, {}, () => ({
    contents: [{ uri: VIEW, mimeType: RESOURCE_MIME_TYPE, text: `<p>${skill}</p>` }],
  }))
  catalog.attach(server)
  return server
}

if (place === 'stdio') {
  serveStdio(makeServer)
} else {
  const handler = toNodeHandler(createMcpHandler(makeServer))
  createServer((request, response) => handler(request, response)).listen(Number(place), '127.0.0.1')
}
