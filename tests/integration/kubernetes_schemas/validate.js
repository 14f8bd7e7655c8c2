// validate.js - Kubernetes objects, a JSON array on stdin, against the API's schemas (npm: kubernetes-models).
//
// The schemas do not report unknown fields, such as misspelt ones. So the validator gets every object through a Proxy that
// records which fields it reads: a field that was never read does not exist in the schema.
'use strict'
const fs = require('fs')

function watched (value, path, unread) {
  if (value === null || typeof value !== 'object') return value
  const children = {}
  for (const key of Object.keys(value)) {
    const at = `${path}/${key}`
    unread.add(at)
    children[key] = watched(value[key], at, unread)
  }
  return new Proxy(value, {
    get (target, key) {
      unread.delete(`${path}/${String(key)}`)
      return Object.hasOwn(children, key) ? children[key] : target[key]
    }
  })
}

// Maps with keys of the user's choice, which the validator does not read one by one.
const FREE = /\/(labels|annotations|matchLabels|selector|data|stringData|requests|limits|nodeSelector)\//

function problems (object) {
  const [group, version] = object.apiVersion.includes('/') ? object.apiVersion.split('/') : ['', object.apiVersion]
  const name = `${object.kind} ${object.metadata && object.metadata.name}`
  const path = ['kubernetes-models', group, version, object.kind].filter(Boolean).join('/')
  let model
  try {
    model = require(path)[object.kind]
  } catch (error) {
    return [`${name}: there is no ${object.apiVersion} ${object.kind}`]
  }
  const found = []
  const unread = new Set()
  try {
    model.prototype.validate.call(watched(object, '', unread))
  } catch (error) {
    found.push(`${name}: ${error.message}`)
  }
  for (const at of unread) {
    const isBelow = [...unread].some(other => other !== at && at.startsWith(other + '/'))
    if (!isBelow && !FREE.test(at)) found.push(`${name}: unknown field ${at}`)
  }
  return found
}

const found = JSON.parse(fs.readFileSync(0, 'utf8')).flatMap(problems)
for (const problem of found) console.log(problem)
console.log(found.length ? `${found.length} problems` : 'ok')
